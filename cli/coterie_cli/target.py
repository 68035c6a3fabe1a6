"""Where commands connect: what options, variables and profiles say, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from coterie_cli.profiles import NoHomeError, Profiles, file_path
from coterie_cli.target_values import FILES, KEYS, expected, without_scheme
from coterie_cli.variables import BOOTSTRAP

__all__ = ["TIMEOUT_S", "Target", "TargetError", "check_options", "one_file", "target_of"]

#: How long a person waits.
TIMEOUT_S: Final = 10.0
#: The parameter of the option that Kafka's tools have for `config_file`.
_ALIAS: Final = "command_config"


class TargetError(Exception):
    """An option can't be what it says; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster to connect to, how to authenticate, and how long to wait for an answer."""

    bootstrap: str = BOOTSTRAP
    #: Where the node answers HTTP; None if that has to be found out.
    http: str | None = None
    #: Kafka's `client.properties`, which what follows overrules.
    config_file: Path | None = None
    tls: bool | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    mechanism: str | None = None
    token_file: Path | None = None
    http_token_file: Path | None = None
    timeout_s: float = TIMEOUT_S

    @property
    def says_who(self) -> bool:
        """Whether anything is said of who connects."""
        return bool(self.user or self.mechanism or self.token_file or self.config_file)

    @property
    def says_how(self) -> bool:
        """Whether anything is said of how to connect, so that it is not PLAINTEXT."""
        files = (self.config_file, self.ca_file, self.cert_file, self.key_file, self.token_file)
        return bool(self.tls or self.user or self.mechanism or any(files))


def target_of(context: typer.Context, given: Mapping[str, Any]) -> Target:
    """The target that options, variables and the profile give.

    An option counts before a variable, and a variable before the profile.  What says which cluster
    is meant overrules all that is weaker: commands must not mix two clusters.  So a `--profile` or
    `--bootstrap` makes variables void, and a bootstrap from elsewhere the profile in use.
    """
    is_named = _by_option(context, "profile")
    values = check_options(_without_alias(context, given))
    is_of_file = _take_bootstrap_of_file(context, values)
    if is_named or is_of_file or ("bootstrap" in values and _by_option(context, "bootstrap")):
        kept = {"bootstrap"} if is_of_file else set()
        values = {k: v for k, v in values.items() if k in kept or _by_option(context, k)}
    if is_named or "bootstrap" not in values:
        values = {**_profile(given.get("profile")), **values}
    if "bootstrap" not in values:
        values |= _bootstrap_of_file(values)
    values["timeout_s"] = values.pop("timeout", TIMEOUT_S)
    if "http" in values:
        values["http"] = without_scheme(values["http"])
    for key in values.keys() & set(FILES):
        values[key] = _expanded(values[key])
    return Target(**values)


def _without_alias(context: typer.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, where --command-config, as Kafka's tools have it, is --config-file."""
    values = dict(given)
    alias = values.pop(_ALIAS, None)
    if alias is not None:
        other = values["config_file"] if _by_option(context, "config_file", None) else None
        values["config_file"] = one_file(other, alias)
    return values


def one_file(config_file: Path | None, command_config: Path | None) -> Path | None:
    """The file of properties that either option names; raises `TargetError` if both do."""
    if config_file is not None and command_config is not None:
        raise TargetError("--config-file and --command-config are the same: give one of them.")
    return config_file or command_config


def _take_bootstrap_of_file(context: typer.Context, values: dict[str, Any]) -> bool:
    """Take the cluster that a file of properties names, unless an option or variable names one.

    True if an option names that file: what is weaker may be about another cluster then.
    """
    is_option = _by_option(context, "config_file")
    if "config_file" not in values or _by_option(context, "bootstrap"):
        return False
    if "bootstrap" in values and not is_option:
        return False
    found = _bootstrap_of_file(values)
    values |= found
    return is_option and bool(found)


def _bootstrap_of_file(values: Mapping[str, Any]) -> dict[str, str]:
    if "config_file" not in values:
        return {}
    from coterie_client.errors import ConfigurationError
    from coterie_client.wire.client_properties import read_properties

    try:
        found = read_properties(_expanded(values["config_file"])).get("bootstrap.servers")
    except ConfigurationError as error:
        raise TargetError(f"{error}.") from None
    return {"bootstrap": found} if found else {}


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


def _by_option(context: typer.Context, name: str, alias: str | None = _ALIAS) -> bool:
    if name == "config_file" and alias is not None and _by_option(context, alias):
        return True
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _profile(name: str | None) -> Mapping[str, Any]:
    try:
        profiles = Profiles.read(file_path())
    except NoHomeError:
        profiles = Profiles()
    name = profiles.current if name is None else name
    return {} if name is None else profiles.get(name)
