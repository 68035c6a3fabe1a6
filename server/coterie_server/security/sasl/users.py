"""Where the users' credentials come from, and what stands in for those of users who don't exist."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from coterie_server.security.credentials import (
    ITERATIONS_DEFAULT,
    ScramCredential,
    ScramMechanism,
)

__all__ = ["Credentials", "Decoys", "Found", "KnownUsers", "Users", "made_of_password"]

_SALT_BYTES: Final = 32


class Users(Protocol):
    """The users, by what is kept of their passwords."""

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """What is kept of a user's password for a mechanism, if anything."""


class KnownUsers:
    """Users that don't change."""

    def __init__(
        self, credentials: Mapping[tuple[str, ScramMechanism], ScramCredential] | None = None
    ) -> None:
        self._credentials = dict(credentials or {})

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """As `Users` says."""
        return self._credentials.get((name, mechanism))


def made_of_password(
    mechanism: ScramMechanism,
    password: bytes,
    salt: bytes,
    iterations: int = ITERATIONS_DEFAULT,
) -> ScramCredential:
    """What to keep of a password; this takes some milliseconds."""
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)
    return ScramCredential.of(mechanism, salted, salt, iterations)


class Decoys:
    """Credentials of users who don't exist, so that a client can't tell that they don't.

    They are always the same for a name, on all nodes and after a restart: `key` is a secret that
    the nodes share.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        """A credential that no password fits."""
        digest = mechanism.digest

        def derived(purpose: str) -> bytes:
            text = f"{purpose}\0{mechanism.title}\0{name}"
            return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), digest)

        salt = derived("salt")[:_SALT_BYTES]
        return ScramCredential(salt, derived("stored"), derived("server"), ITERATIONS_DEFAULT)


class Found(NamedTuple):
    """A credential to check a proof against, and whether it is a user's or a decoy."""

    credential: ScramCredential
    mechanism: ScramMechanism
    is_real: bool


@dataclass(frozen=True, slots=True)
class Credentials:
    """Finds a credential for every name; those that no user has are decoys."""

    users: Users
    decoys: Decoys
    #: Users who may log in by PLAIN only, besides.
    plain_users: Users

    def for_scram(self, name: str, mechanism: ScramMechanism) -> Found:
        """What a proof by SCRAM is checked against."""
        found = self.users.credential(name, mechanism)
        if found is None:
            return Found(self.decoys.credential(name, mechanism), mechanism, is_real=False)
        return Found(found, mechanism, is_real=True)

    def for_plain(self, name: str) -> Found:
        """What a password is checked against."""
        strongest = ScramMechanism.SCRAM_SHA_512
        for users in (self.plain_users, self.users):
            for mechanism in (strongest, ScramMechanism.SCRAM_SHA_256):
                found = users.credential(name, mechanism)
                if found is not None:
                    return Found(found, mechanism, is_real=True)
        return Found(self.decoys.credential(name, strongest), strongest, is_real=False)
