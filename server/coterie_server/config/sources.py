"""The sources of settings: a TOML file, the environment, and overrides on the command line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from coterie_server.config.setting import VARIABLE_PREFIX, Setting, SettingsError, Value

__all__ = ["OfListener", "nearest_known", "read_sources"]

# Kubernetes sets these in every container for a service called "coterie", or "coterie-something".
# Nobody wrote them, so they are not mistaken for settings.
_OF_KUBERNETES = re.compile(
    r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_[A-Z]+(?:_(?:PROTO|PORT|ADDR))?)?)"
)

#: What the names begin with of settings for one listener, as in Kafka.
_OF_LISTENER: Final = "listener.name."

_JAAS: Final = "sasl.jaas.config"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_NOT_FOR_SCRAM: Final = (
    "users of SCRAM are in the store, and bootstrap.users.file has the first ones"
)
_NOT_FOR_TOKENS: Final = "tokens are checked with what is in sasl.oauthbearer.jwks.endpoint.url"
_VARIABLE_OF_LISTENER: Final = f"{VARIABLE_PREFIX}LISTENER_NAME_"


class _Found(NamedTuple):
    """A setting, and for what its value is: empty names stand for all listeners and mechanisms."""

    setting: Setting
    listener: str = ""
    mechanism: str = ""

    @property
    def variable(self) -> str:
        """The variable that says the same."""
        if not self.listener:
            return self.setting.variable
        parts = (self.listener, self.mechanism.replace("-", "_"), self.setting.attribute)
        return _VARIABLE_OF_LISTENER + "_".join(part.upper() for part in parts if part)


_Given = tuple[_Found, object, str]
"""What was found by a name, the value given to it, and where that was given."""


@dataclass(frozen=True, slots=True)
class OfListener:
    """The value of a setting for one listener, and maybe for one mechanism of SASL there."""

    #: The listener's name, in small letters.
    name: str
    attribute: str
    #: It may be a secret.
    value: Value = field(repr=False)
    #: As the protocol has it; empty if the value is for all.
    mechanism: str = ""

    @property
    def key(self) -> str:
        """The name by which it is set, as in Kafka."""
        mechanism = f"{self.mechanism.lower()}." if self.mechanism else ""
        return f"{_OF_LISTENER}{self.name}.{mechanism}{self.attribute.replace('_', '.')}"


def read_sources(
    settings: Sequence[Setting],
    config_path: Path | str | None,
    environ: Mapping[str, str],
    overrides: Iterable[str],
    foreign_variables: Collection[str],
) -> tuple[dict[str, Value], tuple[OfListener, ...]]:
    """The values that the sources give, by attribute, and those for one listener each.

    Later ones win.  Raises `SettingsError`.  Keys in the file may be dotted, quoted or spread over
    tables.
    """
    by_key = {setting.key: setting for setting in settings}
    by_variable = {setting.variable: setting for setting in settings}
    values: dict[str, Value] = {}
    of_listeners: dict[tuple[str, str, str], Value] = {}
    for (setting, listener, mechanism), raw, source in (
        *_from_file(by_key, config_path),
        *_from_environment(by_variable, environ, foreign_variables),
        *_from_overrides(by_key, overrides),
    ):
        value = setting.read(raw, source)
        if listener:
            of_listeners[listener, mechanism, setting.attribute] = value
        else:
            values[setting.attribute] = value
    return values, tuple(
        OfListener(listener, attribute, value, mechanism)
        for (listener, mechanism, attribute), value in of_listeners.items()
    )


def _find(known: Mapping[str, Setting], name: str, source: str) -> _Found:
    if name in known:
        return _Found(known[name])
    for_one = _for_listener(known, name, source)
    if for_one is not None:
        return for_one
    # What all variables begin with makes none of them near.
    by_rest = {each.removeprefix(VARIABLE_PREFIX): each for each in known}
    rest = name.removeprefix(VARIABLE_PREFIX)
    # Names of settings are in small letters, those of variables in capitals.
    written = rest.lower() if rest.lower() in by_rest else rest
    shown = name if name and name.isprintable() else repr(name)
    raise SettingsError(f"unknown setting {shown} ({source}){nearest_known(written, by_rest)}")


def nearest_known(written: str, known: Mapping[str, str]) -> str:
    """How to end a sentence about an unknown name; of known ones, this has what is to be shown."""
    near = difflib.get_close_matches(written, known, n=1)
    return f"; the nearest known one is {known[near[0]]}" if near else ""


def _for_listener(known: Mapping[str, Setting], name: str, source: str) -> _Found | None:
    """The setting of one listener that has this name, of a key or of a variable; None if none."""
    if name.startswith(_OF_LISTENER):
        listener, _, key = name.removeprefix(_OF_LISTENER).partition(".")
        if not listener:
            return None
        setting = known.get(key)
        if setting is None:
            return _for_mechanism(known, listener, key, f"{name} ({source})")
        if not setting.per_listener:
            raise SettingsError(f"{name} ({source}): {key} can't be set for one listener alone")
        return _Found(setting, listener.lower())
    if name.startswith(_VARIABLE_OF_LISTENER):
        rest = name.removeprefix(_VARIABLE_OF_LISTENER)
        possible = sorted((each for each in known.values() if each.per_listener), key=_by_length)
        for setting in possible:
            listener = rest.removesuffix(f"_{setting.attribute.upper()}")
            if listener in ("", rest):
                continue
            for mechanism in setting.mechanisms:
                of_one = listener.removesuffix(f"_{mechanism.replace('-', '_')}")
                if of_one not in ("", listener):
                    return _Found(setting, of_one.lower(), mechanism)
            return _Found(setting, listener.lower())
    return None


def _for_mechanism(
    known: Mapping[str, Setting], listener: str, key: str, where: str
) -> _Found | None:
    """The setting of one mechanism at a listener, which Kafka has for all that concerns SASL."""
    first, _, rest = key.partition(".")
    mechanism = first.upper()
    if key == _JAAS:
        raise SettingsError(
            f"{where}: say for which mechanism, as in {_OF_LISTENER}{listener}.plain.{_JAAS}"
        )
    if mechanism == "GSSAPI":
        raise SettingsError(f"{where}: GSSAPI is not supported; leave it out")
    if mechanism not in _MECHANISMS:
        return None
    if rest == _JAAS:
        why = _NOT_FOR_SCRAM if mechanism.startswith("SCRAM") else _NOT_FOR_TOKENS
        raise SettingsError(f"{where}: {why}; leave it out")
    if rest.endswith(".class"):
        raise SettingsError(f"{where}: no class of Java's can be loaded here; leave it out")
    setting = known.get(rest)
    if setting is None:
        return None
    if mechanism not in setting.mechanisms:
        raise SettingsError(f"{where}: {rest} can't be set for {mechanism} alone")
    return _Found(setting, listener.lower(), mechanism)


def _by_length(setting: Setting) -> int:
    return -len(setting.attribute)


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
        found = _find(by_key, key.strip(), "from --set")
        if found.setting.secret:
            raise SettingsError(
                f"--set {key.strip()}: others can read it in the list of processes. Set it in a"
                f" file that --config names, or by the variable {found.variable}."
            )
        yield found, raw, "from --set"
