"""URLs of stores, as they may be shown."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

__all__ = ["has_password", "without_password"]

#: Parameters of a URL that are secrets.
_SECRETS: Final = ("password", "sslpassword")


def without_password(url: str) -> str:
    """A URL as it may be logged; other texts stay as they are."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return url
    before, mark, query = rest.partition("?")
    # A password may have any character, also those that should have been quoted.
    login, at, place = before.rpartition("@")
    user = login.partition(":")[0]
    kept = "&".join(
        each for each in query.split("&") if unquote(each.partition("=")[0]) not in _SECRETS
    )
    return f"{scheme}://{user}{at}{place}{mark if kept else ''}{kept}"


def has_password(url: str) -> bool:
    """Whether a URL has a secret in it."""
    return without_password(url) != url
