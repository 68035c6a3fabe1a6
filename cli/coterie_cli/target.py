"""Where commands connect: what options, variables and profiles say, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from coterie_cli.profiles import NoHomeError, Profiles, file_path
from coterie_cli.target_values import KEYS, expected, without_scheme
from coterie_cli.variables import BOOTSTRAP

__all__ = ["TIMEOUT_S", "Target", "TargetError", "check_options", "target_of"]

#: How long a person waits.
TIMEOUT_S: Final = 10.0


class TargetError(Exception):
    """An option can't be what it says; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster to connect to, how to authenticate, and how long to wait for an answer."""

    bootstrap: str = BOOTSTRAP
    #: Where the node answers HTTP; None if that has to be found out.
    http: str | None = None
    tls: bool = False
    ca_file: Path | None = None
    user: str | None = None
    mechanism: str = "PLAIN"
    timeout_s: float = TIMEOUT_S


def target_of(context: typer.Context, given: Mapping[str, Any]) -> Target:
    """The target that options, variables and the profile give.

    An option counts before a variable, and a variable before the profile.  What says which cluster
    is meant overrules all that is weaker: commands must not mix two clusters.  So a `--profile` or
    `--bootstrap` makes variables void, and a bootstrap from elsewhere the profile in use.
    """
    is_named = _by_option(context, "profile")
    values = check_options(given)
    if is_named or ("bootstrap" in values and _by_option(context, "bootstrap")):
        values = {key: value for key, value in values.items() if _by_option(context, key)}
    if is_named or "bootstrap" not in values:
        values = {**_profile(given.get("profile")), **values}
    values["timeout_s"] = values.pop("timeout", TIMEOUT_S)
    if "http" in values:
        values["http"] = without_scheme(values["http"])
    if "ca_file" in values:
        values["ca_file"] = _expanded(values["ca_file"])
    return Target(**values)


def check_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What options or their variables say; raises `TargetError` if one can't say that."""
    values = {
        key: str(given[key]) if isinstance(given[key], Path) else given[key]
        for key in KEYS
        if given.get(key) is not None
    }
    for key, value in values.items():
        wanted = expected(key, value)
        if wanted is not None:
            option = key.replace("_", "-")
            raise TargetError(f"--{option} must be {wanted}, got {value!r}.")
    return values


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise TargetError(f"{path} is in the home directory of a user that is not known.") from None


def _by_option(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _profile(name: str | None) -> Mapping[str, Any]:
    try:
        profiles = Profiles.read(file_path())
    except NoHomeError:
        profiles = Profiles()
    name = profiles.current if name is None else name
    return {} if name is None else profiles.get(name)
