"""Whether options make sense.  Pure.

Each check takes an option's name and its value, returns the value ready for use, and otherwise
raises a `ConfigurationError` that says what the option must be and what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Final, NoReturn, TypeVar

from coterie_client.errors import ConfigurationError

__all__ = [
    "INT32_MAX",
    "STRING_BYTES_MAX",
    "flag",
    "instance_of",
    "milliseconds",
    "must_be",
    "names",
    "number",
    "plain_callable",
    "seconds",
    "secret",
    "text",
    "texts",
    "whole",
]

T = TypeVar("T")

#: Kafka's requests carry times as 32 bits of milliseconds, which is 24 days.
INT32_MAX: Final = 2**31 - 1
#: And strings with a length of 16 bits.
STRING_BYTES_MAX: Final = 2**15 - 1
#: How much of a value is shown.
_SHOWN_CHARS: Final = 60


def must_be(name: str, what: str, value: object) -> NoReturn:
    """Refuse a value."""
    raise ConfigurationError(f"{name} must be {what}, got {_shown(value)}")


def seconds(name: str, value: float) -> float:
    """A time in seconds, more than none."""
    number(name, "a positive number of seconds", value)
    if not 0 < value < float("inf"):
        must_be(name, "a positive number of seconds", value)
    if value > INT32_MAX / 1000:
        must_be(name, f"at most {INT32_MAX // 1000} seconds", value)
    return float(value)


def milliseconds(name: str, value: float) -> int:
    """A time that is given in seconds, in the milliseconds that requests carry."""
    return max(1, round(seconds(name, value) * 1000))


def number(name: str, what: str, value: object) -> None:
    """Refuse what is no number; True is none, though Python counts with it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        must_be(name, what, value)


def whole(name: str, value: object, first: int = 1, last: int = INT32_MAX) -> int:
    """A whole number within limits."""
    what = f"a whole number from {first} to {last}"
    if isinstance(value, bool) or not isinstance(value, int) or not first <= value <= last:
        must_be(name, what, value)
    return value


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        must_be(name, "True or False", value)
    return value


def text(name: str, value: object) -> str:
    """A string with something in it that a request can carry."""
    if not isinstance(value, str) or not value:
        must_be(name, "a string that is not empty", value)
    if not 0 < _utf8_bytes(value) <= STRING_BYTES_MAX:
        must_be(name, f"a string of at most {STRING_BYTES_MAX} bytes of UTF-8", value)
    return value


def instance_of(name: str, kind: type[T], what: str, value: object) -> T:
    """An object of a class, which `what` describes."""
    if not isinstance(value, kind):
        must_be(name, what, value)
    return value


def secret(name: str, kind: type[T], what: str, value: object) -> T:
    """An object of a class, that may be or hold a password: it is not shown."""
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be {what}, got {_kind_of(value)}")
    return value


def names(name: str, value: object) -> frozenset[str]:
    """Several names, at least one."""
    what = "a collection of names, at least one"
    if isinstance(value, str):
        raise ConfigurationError(f"{name} must be {what}: write {name}=[{_shown(value)}]")
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray):
        must_be(name, what, value)
    found = tuple(value)
    if not found:
        must_be(name, what, value)
    return frozenset(text(f"each of {name}", each) for each in found)


def texts(name: str, value: object) -> dict[str, str]:
    """A mapping of strings to strings, none of them empty."""
    if not isinstance(value, Mapping):
        must_be(name, "a mapping of strings to strings", value)
    return {
        text(f"each key of {name}", k): text(f"each value of {name}", v) for k, v in value.items()
    }


def plain_callable(name: str, value: object) -> None:
    """Refuse what can't be called."""
    if not callable(value):
        must_be(name, "callable", value)


def _utf8_bytes(value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return 0


def _kind_of(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except Exception:  # noqa: BLE001  # a class of the user's, or a number of 5,000 digits
        return _kind_of(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[: _SHOWN_CHARS - 3]}..."
