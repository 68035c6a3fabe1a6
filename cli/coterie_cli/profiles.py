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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coterie_cli.nearest import did_you_mean
from coterie_cli.target_values import KEYS, expected

__all__ = ["PROFILES_FILE", "NoHomeError", "ProfileError", "Profiles", "file_path"]

#: The variable that names another file.
PROFILES_FILE: Final = "COTERIE_PROFILES"

#: No file of profiles is nearly as large; what is may be a device that never ends.
_SIZE_MAX: Final = 1_000_000


class ProfileError(Exception):
    """A profile or the file of profiles can't be used; the message is a sentence."""


class NoHomeError(ProfileError):
    """There is no place for profiles, and so there are none."""


def file_path() -> Path:
    """Where the profiles are kept."""
    given = os.environ.get(PROFILES_FILE)
    try:
        if given:
            return Path(given).expanduser()
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:  # the user's directory is neither in HOME nor known to the system
        raise NoHomeError(
            f"you have no home directory to keep profiles in; name a file in {PROFILES_FILE}."
        ) from None
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
            with path.open(encoding="utf-8-sig") as file:
                text = file.read(_SIZE_MAX + 1)
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ProfileError(f"{path} can't be read: {reason}.") from None
        if len(text) > _SIZE_MAX:
            raise ProfileError(f"{path} is too large to be a file of profiles.")
        import tomllib

        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ProfileError(f"{path} is not valid TOML: {error}.") from None
        except RecursionError:
            raise ProfileError(f"{path} is nested too deeply for a file of profiles.") from None
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
            if not isinstance(current, str):
                raise ProfileError(f"'current' must be the name of a profile, got {current!r}.")
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
        path = Path(os.path.realpath(path))  # a link stays one
        if path.exists() and not path.is_file():
            raise ProfileError(f"{path} is not a file that profiles can be kept in.")
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
    if key not in KEYS:
        raise ProfileError(f"profile {name!r} has no option {key!r}{did_you_mean(key, KEYS)}")
    wanted = expected(key, value)
    if wanted is not None:
        raise ProfileError(f"{key} of profile {name!r} must be {wanted}, got {value!r}.")


def _toml(value: object) -> str:
    """A value as TOML, whose strings are JSON's but for two things.

    It takes no letter as a pair of surrogates, and DEL only as an escape.
    """
    import json

    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
