"""The sources of settings: a TOML file, the environment, and overrides on the command line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie_server.config.setting import VARIABLE_PREFIX, Setting, SettingsError, Value

__all__ = ["read_sources"]

# Kubernetes sets these in every container for a service called "coterie", or "coterie-something".
# Nobody wrote them, so they are not mistaken for settings.
_OF_KUBERNETES = re.compile(
    r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_[A-Z]+(?:_(?:PROTO|PORT|ADDR))?)?)"
)

_Given = tuple[Setting, object, str]
"""A setting, the value given to it, and where that was given."""


def read_sources(
    settings: Sequence[Setting],
    config_path: Path | str | None,
    environ: Mapping[str, str],
    overrides: Iterable[str],
    foreign_variables: Collection[str],
) -> dict[str, Value]:
    """The values that the sources give, by attribute, or raise `SettingsError`; later ones win.

    Keys in the file may be dotted, quoted or spread over tables.
    """
    by_key = {setting.key: setting for setting in settings}
    by_variable = {setting.variable: setting for setting in settings}
    values: dict[str, Value] = {}
    for setting, raw, source in (
        *_from_file(by_key, config_path),
        *_from_environment(by_variable, environ, foreign_variables),
        *_from_overrides(by_key, overrides),
    ):
        values[setting.attribute] = setting.read(raw, source)
    return values


def _find(known: Mapping[str, Setting], name: str, source: str) -> Setting:
    if name in known:
        return known[name]
    # What all variables begin with makes none of them near.
    by_rest = {each.removeprefix(VARIABLE_PREFIX): each for each in known}
    rest = name.removeprefix(VARIABLE_PREFIX)
    # Names of settings are in small letters, those of variables in capitals.
    written = rest.lower() if rest.lower() in by_rest else rest
    near = difflib.get_close_matches(written, by_rest, n=1)
    hint = f"; the nearest known one is {by_rest[near[0]]}" if near else ""
    shown = name if name and name.isprintable() else repr(name)
    raise SettingsError(f"unknown setting {shown} ({source}){hint}")


def _from_file(by_key: Mapping[str, Setting], path: Path | str | None) -> Iterator[_Given]:
    if path is None:
        return
    source = f"in {path}"
    seen: set[str] = set()
    for key, raw in _flat(_toml(by_key, Path(path)), ""):
        if key in seen:
            raise SettingsError(f"{key} is given twice ({source}), quoted and unquoted; keep one")
        seen.add(key)
        yield _find(by_key, key, source), raw, source


def _toml(by_key: Iterable[str], path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read the settings in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not a TOML file: it is not UTF-8 text") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = "".join(_quoting_hints(by_key, text))
        raise SettingsError(f"{path} is not valid TOML: {error}{hint}") from error


def _quoting_hints(keys: Iterable[str], toml: str) -> Iterator[str]:
    """In TOML, a key that begins another one can't be both a value and that other one's table."""
    given = [key for key in keys if _sets(toml, key)]
    for key in given:
        for longer in given:
            if longer.startswith(f"{key}."):
                yield f'; next to {key}, write "{longer}" in quotes'


def _sets(toml: str, dotted_key: str) -> bool:
    return re.search(rf"^\s*{re.escape(dotted_key)}\s*=", toml, re.MULTILINE) is not None


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _from_environment(
    by_variable: Mapping[str, Setting],
    environ: Mapping[str, str],
    foreign_variables: Collection[str],
) -> Iterator[_Given]:
    for name, raw in sorted(environ.items()):
        if not name.startswith(VARIABLE_PREFIX) or name in foreign_variables:
            continue
        if _OF_KUBERNETES.fullmatch(name.removeprefix(VARIABLE_PREFIX)):
            continue
        yield _find(by_variable, name, "in the environment"), raw, f"from {name}"


def _from_overrides(by_key: Mapping[str, Setting], overrides: Iterable[str]) -> Iterator[_Given]:
    for override in overrides:
        key, equals, raw = override.partition("=")
        if not equals:
            shown = override if override and override.isprintable() else repr(override)
            raise SettingsError(f"--set {shown}: expected KEY=VALUE")
        yield _find(by_key, key.strip(), "from --set"), raw, "from --set"
