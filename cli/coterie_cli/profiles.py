"""Profiles: named sets of the options that say where to connect, in a small TOML file.

::

    current = "staging"

    [profiles.staging]
    bootstrap = "groups.staging.example:9092"
    tls = true
    user = "ann"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coterie_cli.nearest import did_you_mean

__all__ = ["KEYS", "PROFILES_FILE", "ProfileError", "Profiles", "file_path"]

#: The variable that names another file.
PROFILES_FILE: Final = "COTERIE_PROFILES"

#: What a profile may say, by the name of the option, and of which type it is.
KEYS: Final[Mapping[str, type]] = {
    "bootstrap": str,
    "http": str,
    "tls": bool,
    "ca_file": str,
    "user": str,
    "mechanism": str,
    "timeout": float,
}

_KINDS: Final = {str: "a string", bool: "true or false", float: "a number of seconds"}


class ProfileError(Exception):
    """A profile or the file of profiles can't be used; the message is a sentence."""


def file_path() -> Path:
    """Where the profiles are kept."""
    given = os.environ.get(PROFILES_FILE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "coterie" / "profiles.toml"


@dataclass(slots=True)
class Profiles:
    """All profiles, and which of them counts if none is named."""

    current: str | None = None
    by_name: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Profiles:
        """Read a file of profiles; without one, there are none."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise ProfileError(f"{path} can't be read: {error.strerror}.") from None
        except ValueError as error:  # not TOML, or not UTF-8
            raise ProfileError(f"{path} is not valid TOML: {error}.") from None
        try:
            return cls._checked(content)
        except ProfileError as error:
            raise ProfileError(f"{path}: {error}") from None

    @classmethod
    def _checked(cls, content: Mapping[str, Any]) -> Profiles:
        for key in content:
            if key not in ("current", "profiles"):
                raise ProfileError(f"{key!r} has no meaning; it has 'current' and [profiles.NAME].")
        by_name, current = content.get("profiles", {}), content.get("current")
        if not isinstance(by_name, dict):
            raise ProfileError("'profiles' must be a table with a table for each profile.")
        for name, values in by_name.items():
            if not isinstance(values, dict):
                raise ProfileError(f"profile {name!r} must be a table, [profiles.{name}].")
            for key, value in values.items():
                _check(name, key, value)
        found = cls(None, by_name)
        if current is not None:
            found.get(current)
        found.current = current
        return found

    def get(self, name: str) -> dict[str, Any]:
        """What a profile says."""
        if name not in self.by_name:
            raise ProfileError(f"there is no profile {name!r}{did_you_mean(name, self.by_name)}")
        return self.by_name[name]

    def write(self, path: Path) -> None:
        """Keep them in a file, which only its owner can read."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.touch(mode=0o600)
        unfinished.write_text("".join(f"{line}\n" for line in self._lines()), encoding="utf-8")
        unfinished.replace(path)

    def _lines(self) -> Iterator[str]:
        if self.current is not None:
            yield f"current = {_toml(self.current)}"
        for name, values in self.by_name.items():
            yield ""
            yield f"[profiles.{_toml(name)}]"
            for key, value in values.items():
                yield f"{key} = {_toml(value)}"


def _check(name: str, key: str, value: object) -> None:
    kind = KEYS.get(key)
    if kind is None:
        raise ProfileError(f"profile {name!r} has no option {key!r}{did_you_mean(key, KEYS)}")
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not (fits if kind is float else isinstance(value, kind)):
        raise ProfileError(f"{key} of profile {name!r} must be {_KINDS[kind]}, got {value!r}.")


def _toml(value: object) -> str:
    """A value as TOML; JSON's strings are TOML's as well, if they keep to ASCII."""
    import json

    return json.dumps(value)
