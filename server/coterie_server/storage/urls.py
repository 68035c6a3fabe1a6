"""URLs of stores, as they may be shown."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

__all__ = ["has_password", "hosts_of", "port_of", "take_place", "without_password"]

#: Parameters of a URL that are secrets.
_SECRETS: Final = ("password", "sslpassword")
#: What may stand before the parameters if there is no user: hosts, their ports, and a database.
_PLACE: Final = re.compile(r"(?:[^:/@,]*|\[[^]]*\])(?::\d*)?(?:,[^/@]*)?(?:/[^@]*)?")
#: Of the login and the hosts, which begin behind `//`.
_END_OF_PLACE: Final = re.compile(r"[/?#]")
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d+))?")
_PORT_MAX: Final = 65535
#: Behind these is a path, which may have any character.
_FILES: Final = ("sqlite", "memory")


def without_password(url: str) -> str:
    """A URL as it may be logged; other texts stay as they are."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return _without_login(url)
    before, mark, query = _take_query(rest)
    # A password may have any character, also those that should have been quoted.
    login, at, place = before.rpartition("@")
    user = login.partition(":")[0]
    kept = "&".join(
        each for each in query.split("&") if unquote(each.partition("=")[0]) not in _SECRETS
    )
    return f"{scheme}://{user}{at}{place}{mark if kept else ''}{kept}"


def _take_query(rest: str) -> tuple[str, str, str]:
    """What stands before the parameters, their mark, and they.  A login may have such a mark."""
    before, mark, query = rest.partition("?")
    is_query = all("=" in each.partition("@")[0] for each in query.split("&") if "@" in each)
    if "@" in query and not (is_query and _PLACE.fullmatch(before)):
        return rest, "", ""
    return before, mark, query


def _without_login(text: str) -> str:
    """The same for what may be meant for a URL: `postgresql:ann:secret@host`."""
    scheme, colon, rest = text.partition(":")
    login, at, place = rest.rpartition("@")
    if scheme in _FILES or not at or not login or not scheme.replace("-", "").isalnum():
        return text
    return f"{scheme}{colon}...{at}{place}"


def has_password(url: str) -> bool:
    """Whether a URL has a secret in it."""
    return without_password(url) != url


def take_place(url: str) -> tuple[str, str]:
    """The login and hosts of a URL, and the URL without them; raises `ValueError` of a wrong login.

    `urlsplit` does not do, as newer Pythons refuse a list of hosts with an IPv6 address in it.
    """
    scheme, slashes, rest = url.partition("://")
    end = _END_OF_PLACE.search(rest)
    at = end.start() if end else len(rest)
    # Or the beginning of a password would be taken for a host, and shown or looked up as one.
    if "@" in _take_query(rest)[0][at:]:
        raise ValueError("write / ? and # in a user's name or a password as %2F, %3F and %23")
    return rest[:at], f"{scheme}{slashes}{rest[at:]}"


def hosts_of(place: str) -> tuple[tuple[str, int | None], ...]:
    """The hosts, with their ports if they have one; raises `ValueError` of what is none."""
    listed = place.rpartition("@")[2]
    hosts: list[tuple[str, int | None]] = []
    for each in listed.split(",") if listed else ():
        found = _HOST.fullmatch(each)
        if found is None:
            raise ValueError(f"{each!r} is not HOST or HOST:PORT")
        host, port = found.groups()
        number = None if port is None else port_of(port, shown=each)
        hosts.append((unquote(host.strip("[]")), number))
    return tuple(hosts)


def port_of(text: str, *, shown: str) -> int:
    """The number of a port; raises `ValueError` of what is none."""
    if not (text.isascii() and text.isdigit() and int(text) <= _PORT_MAX):
        raise ValueError(f"{shown!r}: a port is a number from 0 to {_PORT_MAX}")
    return int(text)
