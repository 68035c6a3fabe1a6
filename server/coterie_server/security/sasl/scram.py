"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, and neither sends it.

client  n,,n=ann,r=NONCE
server  r=NONCE+OTHER,s=SALT,i=ITERATIONS
client  c=HEADER,r=NONCE+OTHER,p=PROOF
server  v=SIGNATURE
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from coterie_server.security.principal import USER_KIND, Principal
from coterie_server.security.sasl.steps import Accepted, Challenge, LoginRefusedError

if TYPE_CHECKING:
    from coterie_server.security.sasl.users import Found

__all__ = ["BINDING_NAME", "ScramConversation", "saslname", "user_principal"]

#: Binds the conversation to the certificate of the connection's TLS (RFC 5929).
BINDING_NAME: Final = "tls-server-end-point"

# They go back over few characters, as messages may be long.  Groups are not possessive: up to
# Python 3.11.4 such ones miss what they should match.
#: [\x21-\x7e] without commas, which separate.
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]++"
_NAME: Final = r"(?!,)[^=,\0]*+(?:=(?:2C|3D)[^=,\0]*+)*"
#: The proof is none.
_EXTENSIONS: Final = r"(?:,(?!p=)[A-Za-z]++=[^,\0]++)*"
_BASE64: Final = r"[A-Za-z0-9+/]*+={0,2}"
_FIRST: Final = re.compile(
    rf"(?P<header>(?:n|y|p=(?P<binding>[A-Za-z0-9.-]+)),(?:a=(?P<identity>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)
#: Says that the name is a delegation token's, of which there are none here.
_BY_DELEGATION: Final = ",tokenauth=true"

_OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

Find = Callable[[str], "Found"]
"""Finds what a name's proof is checked against, for every name."""


def user_principal(name: str) -> Principal:
    """The principal of a user."""
    return Principal(USER_KIND, name)


class ScramConversation:
    """The server's side of one conversation.

    `nonce` is never used again.  `bindings` are what the client may bind it to; if there are any,
    it has to.
    """

    def __init__(
        self,
        find: Find,
        nonce: str,
        *,
        bindings: Collection[bytes] = (),
        principal_of: Callable[[str], Principal] = user_principal,
    ) -> None:
        self._find = find
        self._nonce = nonce
        self._bindings = bindings
        self._principal_of = principal_of
        self._name: str | None = None
        self._found: Found
        self._headers: set[bytes]
        self._said = ""

    def respond(self, token: bytes) -> Challenge | Accepted:
        """Take the client's next message."""
        return self._challenge(token) if self._name is None else self._finish(token)

    def _challenge(self, token: bytes) -> Challenge:
        parts = _parsed(_FIRST, token, "first")
        self._name = name = _unescaped(parts["name"])
        self._headers = self._bound(parts["header"], parts["binding"])
        identity = parts["identity"]
        if identity is not None and _unescaped(identity) != name:
            why = f"it asks to act for {_unescaped(identity)!r}"
            raise LoginRefusedError(why, told=_OTHER_IDENTITY, user=name)
        found = self._find(name)
        if _BY_DELEGATION in parts["extensions"].lower():
            found = found._replace(is_real=False)
        self._found = found
        self._nonce = parts["nonce"] + self._nonce
        kept = found.credential
        salt = base64.b64encode(kept.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={kept.iterations}"
        self._said = f"{parts['bare']},{challenge}"
        return Challenge(challenge.encode())

    def _bound(self, header: str, binding: str | None) -> set[bytes]:
        """What the client has to repeat of its header, with what it binds the conversation to."""
        if not self._bindings and binding is None:
            return {header.encode()}
        if binding != BINDING_NAME or not self._bindings:
            why = f"channel binding {binding!r}" if binding else "no channel binding"
            raise LoginRefusedError(why, user=self._name)
        return {header.encode() + each for each in self._bindings}

    def _finish(self, token: bytes) -> Accepted:
        parts = _parsed(_FINAL, token, "final")
        name, found = self._name, self._found
        assert name is not None
        if parts["nonce"] != self._nonce:
            raise LoginRefusedError("wrong nonce", user=name)
        if _decoded(parts["channel"]) not in self._headers:
            raise LoginRefusedError("channel binding differs", user=name)
        said = f"{self._said},{parts['unproved']}".encode()
        if not _proves(_decoded(parts["proof"]), found, said) or not found.is_real:
            why = "wrong password" if found.is_real else "unknown user"
            raise LoginRefusedError(why, user=name)
        signature = hmac.digest(found.credential.server_key, said, found.mechanism.digest)
        answer = b"v=" + base64.b64encode(signature)
        return Accepted(
            self._principal_of(name), answer, confirm=lambda: found.confirm(self._find(name), name)
        )


def _proves(proof: bytes, found: Found, said: bytes) -> bool:
    digest, stored_key = found.mechanism.digest, found.credential.stored_key
    signature = hmac.digest(stored_key, said, digest)
    if len(proof) != len(signature):
        return False
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(digest, client_key).digest(), stored_key)


def _parsed(pattern: re.Pattern[str], token: bytes, which: str) -> re.Match[str]:
    try:
        match = pattern.fullmatch(token.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise LoginRefusedError(f"malformed {which} message")
    return match


def _decoded(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    # There is one way to write some bytes; others would be other messages that prove the same.
    if base64.b64encode(decoded).decode() != text:
        raise LoginRefusedError("malformed base64")
    return decoded


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def saslname(name: str) -> str:
    """A name as messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")
