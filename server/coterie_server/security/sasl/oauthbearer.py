"""OAUTHBEARER (RFC 7628): the client shows a token that an identity provider has signed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coterie_server.security.principal import USER_KIND, Principal
from coterie_server.security.sasl.steps import Accepted, Challenge, LoginRefusedError

__all__ = ["OAuthBearerConversation", "ShownToken", "TokenRefusedError", "VerifyToken"]

# As those of SCRAM.
_NAME: Final = r"(?!,)[^=,\0]*+(?:=(?:2C|3D)[^=,\0]*+)*"
#: The parts are separated by \x01, and two of them end the message.
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<identity>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*)\x01"
)
_BEARER: Final = re.compile(r"bearer ++(?P<token>[-_~+/.A-Za-z0-9]++=*)", re.IGNORECASE)
_REFUSED: Final = json.dumps({"status": "invalid_token"})


class TokenRefusedError(Exception):
    """A token does not show who its bearer is; the text, which has nothing of it, says why."""


@dataclass(frozen=True, slots=True)
class ShownToken:
    """What a token says that was signed as it should be."""

    name: str
    lifetime_ms: int


VerifyToken = Callable[[str], ShownToken]
"""Checks a token; raises `TokenRefusedError`."""


class OAuthBearerConversation:
    """Accepts a token, or says what is wrong and waits for the client to acknowledge that."""

    def __init__(self, verify: VerifyToken) -> None:
        self._verify = verify
        #: Why the token is refused.
        self._why: str | None = None

    def respond(self, token: bytes) -> Challenge | Accepted:
        """Take the client's next message."""
        if self._why is not None:
            raise _refusal(self._why)
        identity, shown = _shown(token)
        try:
            found = self._verify(shown)
        except TokenRefusedError as error:
            self._why = str(error)
            return Challenge(_REFUSED.encode(), _refusal(self._why))
        if identity not in (None, found.name):
            told = (
                f"Authentication failed: Client requested an authorization id ({identity}) that is"
                f" different from the token's principal name ({found.name})"
            )
            raise LoginRefusedError(f"it asks to act for {identity!r}", told=told, user=found.name)
        return Accepted(Principal(USER_KIND, found.name), lifetime_ms=found.lifetime_ms)


def _refusal(why: str) -> LoginRefusedError:
    return LoginRefusedError(why, told=_REFUSED, is_logged=True)


def _shown(token: bytes) -> tuple[str | None, str]:
    """Whom the client asks to act for, and the token."""
    try:
        match = _FIRST.fullmatch(token.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise LoginRefusedError("malformed message")
    pairs = [pair.split("=", 1) for pair in match["pairs"].split("\x01")[:-1]]
    shown = [value for key, value in pairs if key == "auth"]
    bearer = _BEARER.fullmatch(shown[0]) if len(shown) == 1 else None
    if bearer is None:
        raise LoginRefusedError("no bearer token")
    identity = match["identity"]
    if identity is not None:
        identity = identity.replace("=2C", ",").replace("=3D", "=")
    return identity, bearer["token"]
