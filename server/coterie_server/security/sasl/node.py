"""COTERIE-NODE: how nodes that share a store prove to each other that they do.

It is SCRAM-SHA-256 with a secret from the store in place of the salted password: the secret is
random and long, so salt and iterations would add nothing.  Over TLS, the conversation is bound to
the certificate of the node that is asked, so that it need not be verified: a machine in between has
another one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Collection
from typing import Final

from coterie_protocol.exceptions import CoterieError
from coterie_server.security.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from coterie_server.security.principal import NODE_KIND, Principal
from coterie_server.security.sasl.scram import BINDING_NAME, ScramConversation
from coterie_server.security.sasl.users import Found

__all__ = [
    "NODE_MECHANISM",
    "NodeNotProvenError",
    "NodeProof",
    "certificate_binding",
    "node_conversation",
]

NODE_MECHANISM: Final = "COTERIE-NODE"

_MECHANISM: Final = ScramMechanism.SCRAM_SHA_256
_DIGEST: Final = _MECHANISM.digest
_SALT: Final = b"coterie"
_USER: Final = re.compile(r"node-(0|[1-9][0-9]{0,9})")


class NodeNotProvenError(CoterieError):
    """What answers is not a node on this store."""


def certificate_binding(certificate: bytes) -> bytes:
    """What a conversation is bound to: the certificate, in DER, that the asked node shows."""
    return hashlib.sha256(certificate).digest()


def node_conversation(
    secret: bytes, nonce: str, bindings: Collection[bytes] = ()
) -> ScramConversation:
    """The side of the node that is asked."""
    credential = ScramCredential.of(_MECHANISM, secret, _SALT, ITERATIONS_MIN)

    def find(name: str) -> Found:
        return Found(credential, _MECHANISM, is_real=_USER.fullmatch(name) is not None)

    return ScramConversation(find, nonce, bindings=bindings, principal_of=_principal_of)


def _principal_of(name: str) -> Principal:
    return Principal(NODE_KIND, name.removeprefix("node-"))


class NodeProof:
    """The side of the node that asks: `first`, then `final` with the answer, then `verify`."""

    def __init__(self, secret: bytes, node_id: int, nonce: str, binding: bytes = b"") -> None:
        self._secret = secret
        self._nonce = nonce
        self._header = f"p={BINDING_NAME},," if binding else "n,,"
        self._channel = base64.b64encode(self._header.encode() + binding).decode()
        self._bare = f"n=node-{node_id},r={nonce}"
        self._expected = b""

    def first(self) -> bytes:
        """The first message."""
        return (self._header + self._bare).encode()

    def final(self, challenge: bytes) -> bytes:
        """The second message, which proves that this node knows the secret."""
        nonce, comma, _ = challenge.decode("ascii", "replace").partition(",")
        if not comma or not nonce.startswith(f"r={self._nonce}") or nonce == f"r={self._nonce}":
            raise NodeNotProvenError("its challenge is malformed")
        unproved = f"c={self._channel},{nonce}"
        said = b",".join((self._bare.encode(), challenge, unproved.encode()))
        client_key = hmac.digest(self._secret, b"Client Key", _DIGEST)
        signature = hmac.digest(hashlib.new(_DIGEST, client_key).digest(), said, _DIGEST)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        server_key = hmac.digest(self._secret, b"Server Key", _DIGEST)
        self._expected = b"v=" + base64.b64encode(hmac.digest(server_key, said, _DIGEST))
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, answer: bytes) -> None:
        """Raise unless the other side has proved that it knows the secret as well."""
        if not self._expected or not hmac.compare_digest(answer, self._expected):
            raise NodeNotProvenError("it does not know the secret of this cluster's store")
