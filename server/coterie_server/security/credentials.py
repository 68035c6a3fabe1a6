"""What is kept of a password: enough to check it, and not enough to log in with (RFC 5802)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Self

__all__ = [
    "ITERATIONS_DEFAULT",
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "ScramCredential",
    "ScramMechanism",
]

#: Kafka's bounds, which hold for both mechanisms.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
ITERATIONS_DEFAULT: Final = 8_192


class ScramMechanism(IntEnum):
    """A SCRAM mechanism, by its number in Kafka's requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """Its registered name."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The hash that it uses, by hashlib's name."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of a password for one mechanism; no text shows it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> Self:
        """Make it of a salted password, which is what Kafka's tools send."""
        digest = mechanism.digest
        client_key = hmac.digest(salted_password, b"Client Key", digest)
        server_key = hmac.digest(salted_password, b"Server Key", digest)
        return cls(salt, hashlib.new(digest, client_key).digest(), server_key, iterations)
