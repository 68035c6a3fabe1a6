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

__all__ = [
    "SALT_BYTES",
    "Credentials",
    "Decoys",
    "Found",
    "KnownUsers",
    "Users",
    "made_of_password",
]

#: How long the salts are that are made here.
SALT_BYTES: Final = 24
#: Of these, Kafka's tools make salts.
_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_TEXT: Final = frozenset(_LETTERS)
#: There are few tools that set passwords.
_SHAPES_MAX: Final = 16


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


class _Shape(NamedTuple):
    """What challenges show of a credential besides random bytes.

    It tells by which tool the user's password was set: Kafka's own take letters and digits for
    salts.
    """

    iterations: int
    salt_bytes: int
    is_text: bool

    @classmethod
    def of(cls, credential: ScramCredential) -> _Shape:
        """The shape of a user's credential."""
        salt = credential.salt
        return cls(credential.iterations, len(salt), set(salt) <= _TEXT)


_USUAL: Final = _Shape(ITERATIONS_DEFAULT, SALT_BYTES, is_text=False)


class Decoys:
    """Credentials of users who don't exist, so that a client can't tell that they don't.

    They are always the same for a name, on all nodes and after a restart: `key` is a secret that
    the nodes share.  Only which shapes they have is learned from those of users.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._shapes: dict[ScramMechanism, set[_Shape]] = {each: set() for each in ScramMechanism}

    def learn(self, credential: ScramCredential, mechanism: ScramMechanism) -> None:
        """Look like a user's credential, too."""
        shapes = self._shapes[mechanism]
        if len(shapes) < _SHAPES_MAX:
            shapes.add(_Shape.of(credential))

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        """A credential that no password fits."""

        def derived(purpose: str) -> bytes:
            text = f"{purpose}\0{mechanism.title}\0{name}"
            return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), mechanism.digest)

        # The one with the highest number: another that is learned changes it for few names.
        shapes = self._shapes[mechanism] or {_USUAL}
        shape = max(shapes, key=lambda each: derived(f"shape {each}"))
        salt, block = b"", 0
        while len(salt) < shape.salt_bytes:
            salt += derived(f"salt {block}")
            block += 1
        salt = salt[: shape.salt_bytes]
        if shape.is_text:
            salt = bytes(_LETTERS[byte % len(_LETTERS)] for byte in salt)
        return ScramCredential(salt, derived("stored"), derived("server"), shape.iterations)


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
        self.decoys.learn(found, mechanism)
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
