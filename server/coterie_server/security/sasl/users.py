"""Where the users' credentials come from, and what stands in for those of users who don't exist."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from coterie_server.security.credentials import (
    ITERATIONS_DEFAULT,
    ScramCredential,
    ScramMechanism,
)
from coterie_server.security.sasl.steps import LoginRefusedError

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

    @property
    def version(self) -> object:
        """Another one whenever a password was set or deleted."""

    def all(self) -> Iterable[Mapping[ScramMechanism, ScramCredential]]:
        """What is kept of each user's password."""


class KnownUsers:
    """Users that don't change."""

    def __init__(
        self, credentials: Mapping[tuple[str, ScramMechanism], ScramCredential] | None = None
    ) -> None:
        self._credentials = dict(credentials or {})

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """As `Users` says."""
        return self._credentials.get((name, mechanism))

    @property
    def version(self) -> object:
        """As `Users` says."""
        return self

    def all(self) -> Iterable[Mapping[ScramMechanism, ScramCredential]]:
        """As `Users` says."""
        found: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        for (name, mechanism), credential in self._credentials.items():
            found.setdefault(name, {})[mechanism] = credential
        return found.values()


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

_Kind = tuple[ScramMechanism, _Shape]
"""What tells credentials from each other, besides random bytes."""


def _kind_for_plain(kept: Mapping[ScramMechanism, ScramCredential]) -> _Kind:
    """Of the credential of a user that PLAIN checks passwords by: the strongest."""
    return max((mechanism, _Shape.of(credential)) for mechanism, credential in kept.items())


class Decoys:
    """Credentials of users who don't exist, so that a client can't tell that they don't.

    They are always the same for a name, on all nodes and after a restart: `key` is a secret that
    the nodes share.  Only which shapes they have is learned from those of users, all at once: if a
    user's were learned when that user is asked for, the decoys that change would tell of it.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._version: object = None
        #: By what PLAIN checks passwords: how long that takes depends on it.
        self._plain: set[_Kind] = set()
        self._shapes: dict[ScramMechanism, set[_Shape]] = {each: set() for each in ScramMechanism}

    def learn(self, users: Users) -> None:
        """Look like the users' credentials, if those are others than before."""
        if users.version == self._version:
            return
        self._version = users.version
        counted: Counter[_Kind] = Counter()
        plain: Counter[_Kind] = Counter()
        for kept in users.all():
            counted.update((mechanism, _Shape.of(each)) for mechanism, each in kept.items())
            plain[_kind_for_plain(kept)] += 1
        self._plain = _most_common(plain)
        for mechanism in ScramMechanism:
            own = Counter({key: count for key, count in counted.items() if key[0] is mechanism})
            self._shapes[mechanism] = {shape for _, shape in _most_common(own)}

    def for_plain(self, name: str, known: AbstractSet[_Kind]) -> Found:
        """What a password is checked against that none fits, in the time that others take.

        `known` are the kinds of credentials that there are besides those which were learned.
        """
        found = self._plain | known or {(ScramMechanism.SCRAM_SHA_512, _USUAL)}

        hashed = self._hashed(name)

        def derived(one: _Kind) -> bytes:
            return hmac.digest(self._key, f"plain {one}\0{hashed}".encode(), "sha256")

        mechanism, shape = max(found, key=derived)
        decoy = self.credential(name, mechanism)
        return Found(replace(decoy, iterations=shape.iterations), mechanism, is_real=False)

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential:
        """A credential that no password fits."""
        hashed = self._hashed(name)

        def derived(purpose: str) -> bytes:
            text = f"{purpose}\0{mechanism.title}\0{hashed}"
            return hmac.digest(self._key, text.encode(), mechanism.digest)

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

    def _hashed(self, name: str) -> str:
        """A name that is short, whatever a client made up."""
        return hmac.digest(self._key, name.encode("utf-8", "surrogatepass"), "sha256").hex()


def _most_common(counted: Counter[_Kind]) -> set[_Kind]:
    """The same ones on all nodes, and not too many."""
    return set(sorted(counted, key=lambda each: (-counted[each], each))[:_SHAPES_MAX])


class Found(NamedTuple):
    """A credential to check a proof against, and whether it is a user's or a decoy."""

    credential: ScramCredential
    mechanism: ScramMechanism
    is_real: bool

    def confirm(self, now: Found, user: str, told: str | None = None) -> None:
        """Raise `LoginRefusedError` if a proof would be checked against another one now."""
        if now.credential != self.credential:
            why = "its password was changed or removed meanwhile"
            raise LoginRefusedError(why, told=told, user=user)


@dataclass(slots=True)
class Credentials:
    """Finds a credential for every name; those that no user has are decoys.

    A decoy is made for users' names as well: the time would tell who is one.
    """

    users: Users
    decoys: Decoys
    #: Users who may log in by PLAIN only, besides.
    plain_users: KnownUsers
    _plain_kinds: frozenset[_Kind] = field(init=False)

    def __post_init__(self) -> None:
        self._plain_kinds = frozenset(map(_kind_for_plain, self.plain_users.all()))

    def for_scram(self, name: str, mechanism: ScramMechanism) -> Found:
        """What a proof by SCRAM is checked against."""
        self.decoys.learn(self.users)
        decoy = self.decoys.credential(name, mechanism)
        found = self.users.credential(name, mechanism)
        return Found(found or decoy, mechanism, is_real=found is not None)

    def for_plain(self, name: str) -> Found:
        """What a password is checked against."""
        self.decoys.learn(self.users)
        decoy = self.decoys.for_plain(name, self._plain_kinds)
        for users in (self.plain_users, self.users):
            for mechanism in (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256):
                found = users.credential(name, mechanism)
                if found is not None:
                    return Found(found, mechanism, is_real=True)
        return decoy
