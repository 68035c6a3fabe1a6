"""PLAIN (RFC 4616): the client sends its name and password."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from coterie_server.security.principal import USER_KIND, Principal
from coterie_server.security.sasl.steps import Accepted, Check, LoginRefusedError
from coterie_server.security.sasl.users import made_of_password

if TYPE_CHECKING:
    from coterie_server.security.sasl.users import Credentials, Found

__all__ = ["PlainConversation", "RightPasswords"]

#: What Kafka says, so that clients which look for it find it.
_INVALID: Final = "Authentication failed: Invalid username or password"
_OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_PARTS: Final = 3
#: Of how many users a password is remembered.
_REMEMBERED_MAX: Final = 10_000


class RightPasswords:
    """Remembers which passwords were right, so that a thousand members can come back at once.

    Of each user it keeps a hash of the last one, which is quickly made, but with a key that is
    nowhere else than in this process.  It counts for as long as what is stored of the user stays.
    """

    def __init__(self, key: bytes, most: int = _REMEMBERED_MAX) -> None:
        self._key = key
        self._most = most
        self._hashes: dict[str, bytes] = {}

    def knows(self, name: str, password: bytes, found: Found) -> bool:
        """Whether a user's password is known to be right."""
        kept = self._hashes.get(name)
        if kept is None or not found.is_real:
            return False
        return hmac.compare_digest(kept, self._hash(name, password, found))

    def remember(self, name: str, password: bytes, found: Found) -> None:
        """Take note of a right password."""
        if name not in self._hashes and len(self._hashes) >= self._most:
            self._hashes.clear()  # so many users don't come back at once
        self._hashes[name] = self._hash(name, password, found)

    def _hash(self, name: str, password: bytes, found: Found) -> bytes:
        # None of the first two has a zero byte in it but the key, which has a fixed length.
        said = b"\0".join((found.credential.stored_key, name.encode(), password))
        return hmac.digest(self._key, said, "sha256")


class PlainConversation:
    """Checks a password against what is kept of it for SCRAM."""

    def __init__(self, credentials: Credentials, right: RightPasswords) -> None:
        self._credentials = credentials
        self._right = right

    def respond(self, token: bytes) -> Accepted | Check:
        """Take the only message: [authorization id] NUL name NUL password."""
        identity, name, password = _parts(token)
        found, right = self._credentials.for_plain(name), self._right

        def run() -> Accepted:
            # It may have been found right while this waited for its turn.
            if not right.knows(name, password, found):
                if not _fits(password, found):
                    why = "wrong password" if found.is_real else "unknown user"
                    raise LoginRefusedError(why, told=_INVALID, user=name)
                right.remember(name, password, found)
            return accepted()

        def accepted() -> Accepted:
            if identity not in ("", name):
                why = f"it asks to act for {identity!r}"
                raise LoginRefusedError(why, told=_OTHER_IDENTITY, user=name)
            return Accepted(Principal(USER_KIND, name), confirm=confirm)

        def confirm() -> None:
            found.confirm(self._credentials.for_plain(name), name, told=_INVALID)

        return accepted() if right.knows(name, password, found) else Check(run)


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
