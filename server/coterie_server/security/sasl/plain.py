"""PLAIN (RFC 4616): the client sends its name and password."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from coterie_server.security.principal import USER_KIND, Principal
from coterie_server.security.sasl.steps import Accepted, Check, LoginRefusedError
from coterie_server.security.sasl.users import made_of_password

if TYPE_CHECKING:
    from coterie_server.security.sasl.users import Credentials, Found

__all__ = ["PlainConversation"]

#: What Kafka says, so that clients which look for it find it.
_INVALID: Final = "Authentication failed: Invalid username or password"
_OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_PARTS: Final = 3


class PlainConversation:
    """Checks a password against what is kept of it for SCRAM."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def respond(self, token: bytes) -> Check:
        """Take the only message: [authorization id] NUL name NUL password."""
        authorization_id, name, password = _parts(token)
        found = self._credentials.for_plain(name)

        def run() -> Accepted:
            if not _fits(password, found):
                why = "wrong password" if found.is_real else "unknown user"
                raise LoginRefusedError(why, told=_INVALID, user=name)
            if authorization_id not in ("", name):
                why = f"it asks to act for {authorization_id!r}"
                raise LoginRefusedError(why, told=_OTHER_IDENTITY, user=name)
            return Accepted(Principal(USER_KIND, name))

        return Check(run)


def _parts(token: bytes) -> tuple[str, str, bytes]:
    parts = token.split(b"\0")
    if len(parts) != _PARTS:
        # Kafka counts no further than to one more than there should be.
        counted = min(len(parts), _PARTS + 1)
        told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {counted}"
        raise LoginRefusedError("malformed message", told=told)
    try:
        authorization_id, name = parts[0].decode(), parts[1].decode()
    except UnicodeDecodeError:
        raise LoginRefusedError("a name that is not UTF-8", told=_INVALID) from None
    if not name:
        told = "Authentication failed: username not specified"
        raise LoginRefusedError("no user name", told=told)
    if not parts[2]:
        told = "Authentication failed: password not specified"
        raise LoginRefusedError("no password", told=told, user=name)
    return authorization_id, name, parts[2]


def _fits(password: bytes, found: Found) -> bool:
    kept = found.credential
    made = made_of_password(found.mechanism, password, kept.salt, kept.iterations)
    return hmac.compare_digest(made.stored_key, kept.stored_key) and found.is_real
