"""What may be said of where to connect, in an option, a variable or a profile alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = [
    "FILES",
    "KEYS",
    "MECHANISMS",
    "TIMEOUT_MAX_S",
    "TIMEOUT_MIN_S",
    "expected",
    "without_scheme",
]

#: What a profile may say, by the name of the option, and of which type it is.
KEYS: Final[Mapping[str, type]] = {
    "bootstrap": str,
    "http": str,
    "config_file": str,
    "tls": bool,
    "ca_file": str,
    "cert_file": str,
    "key_file": str,
    "user": str,
    "mechanism": str,
    "token_file": str,
    "http_token_file": str,
    "timeout": float,
}

#: Those that are the names of files.
FILES: Final = tuple(key for key in KEYS if key.endswith("_file"))

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TIMEOUT_MIN_S: Final = 0.1
#: Eleven days; the client counts milliseconds, in 32 bits.
TIMEOUT_MAX_S: Final = 1e6

_WANTED: Final[Mapping[str, str]] = {
    "bootstrap": "HOST:PORT, or several of that with commas",
    "http": "HOST:PORT, or https://HOST:PORT",
    "tls": "true or false",
    "user": "a name",
    "mechanism": f"one of {', '.join(MECHANISMS)}",
    "timeout": f"a number of seconds from {TIMEOUT_MIN_S:g} to {TIMEOUT_MAX_S:,.0f}",
}
_WANTED_OF_FILE: Final = "the path of a file"
_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s:/@\[\]]+):([0-9]{1,5})")
_PORT_MAX: Final = 65_535


def expected(key: str, value: object) -> str | None:
    """What the value of an option must be; None if it is that."""
    return None if _is_right(key, value) else _WANTED.get(key, _WANTED_OF_FILE)


def _is_right(key: str, value: object) -> bool:
    kind = KEYS[key]
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # A comparison with NaN is false.
        return is_number and TIMEOUT_MIN_S <= value <= TIMEOUT_MAX_S  # type: ignore[operator]
    if kind is bool or not isinstance(value, str):
        return isinstance(value, kind)
    if key == "mechanism":
        return value in MECHANISMS
    if key == "http":
        return _is_address(without_scheme(value).removeprefix("https://"))
    return value != "" and value.isprintable()


def without_scheme(address: str) -> str:
    """HOST:PORT of an address that may be a URL, as the daemon prints it; https:// stays."""
    return address.removeprefix("http://").removesuffix("/")


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and text.isprintable() and 1 <= int(found[1]) <= _PORT_MAX
