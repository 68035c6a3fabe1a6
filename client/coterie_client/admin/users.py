"""Users and their SCRAM credentials: list them, set passwords, delete them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coterie_client import checks
from coterie_client.admin import arguments
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import Result, Results, error_of
from coterie_client.errors import ConfigurationError
from coterie_client.wire.credentials import SaslMechanism
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import ResourceNotFoundError
from coterie_protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

__all__ = ["ITERATIONS", "UserDescription", "Users"]

#: Twice what Kafka's tools take if not told otherwise, and half of what Kafka allows.
ITERATIONS: Final = 8_192
#: Kafka's own limits.
_ITERATIONS_MIN: Final = 4_096
_ITERATIONS_MAX: Final = 16_384
_SALT_BYTES: Final = 24

_SCRAM: Final = (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
_NUMBERS: Final = {SaslMechanism.SCRAM_SHA_256: 1, SaslMechanism.SCRAM_SHA_512: 2}
_BY_NUMBER: Final = {number: mechanism for mechanism, number in _NUMBERS.items()}
_DIGESTS: Final = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}
_NO_CREDENTIAL: Final = frozenset({ErrorCode.RESOURCE_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class UserDescription:
    """A user, and the number of iterations of its credential for each mechanism."""

    name: str
    iterations: Mapping[SaslMechanism, int]

    @property
    def mechanisms(self) -> tuple[SaslMechanism, ...]:
        """The mechanisms by which the user can authenticate."""
        return tuple(self.iterations)


class Users:
    """Operations on users with passwords; use `Admin.users`.

    A password does not leave this process: the server gets it salted and hashed.
    """

    def __init__(self, caller: Caller, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._caller = caller
        self._random_bytes = random_bytes

    async def list(self) -> tuple[UserDescription, ...]:
        """List all users by name."""

        async def call(deadline_s: float) -> tuple[UserDescription, ...]:
            answer = await self._ask((), deadline_s)
            found = (_described(each).get() for each in answer.results)
            return tuple(sorted(found, key=lambda user: user.name))

        return await self._caller.once(call)

    async def describe(self, name: str) -> UserDescription:
        """Describe a user; raises `ResourceNotFoundError` if it does not exist."""
        return (await self.describe_many([name]))[name].get()

    async def describe_many(self, names: Iterable[str]) -> Results[str, UserDescription]:
        """Describe users."""
        wanted = arguments.strings("names", names)

        async def attempt(
            asked: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[UserDescription]]:
            answer = await self._ask(asked, deadline_s)
            return {each.user: _described(each) for each in answer.results}

        return await self._caller.settle(wanted, attempt)

    async def set_password(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[SaslMechanism | str] = _SCRAM,
        iterations: int = ITERATIONS,
    ) -> None:
        """Give a user a password, for each of the mechanisms; a user who is new is made by this."""
        checks.text("name", name)
        checks.secret("password", str, "a string", password)
        if not password:
            raise ConfigurationError("password must be a string that is not empty")
        checks.whole("iterations", iterations, _ITERATIONS_MIN, _ITERATIONS_MAX)
        for mechanism in _mechanisms(mechanisms):
            salt = self._random_bytes(_SALT_BYTES)
            salted = await asyncio.to_thread(
                hashlib.pbkdf2_hmac, _DIGESTS[mechanism], _encoded(password), salt, iterations
            )
            upsertion = ScramCredentialUpsertion(
                name=name,
                mechanism=_NUMBERS[mechanism],
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
            # Kafka refuses two changes of one user in a request.
            request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
            await self._alter(name, request)

    async def delete(
        self, name: str, *, mechanisms: Iterable[SaslMechanism | str] | None = None
    ) -> None:
        """Delete a user's credentials, all of them or those for some mechanisms.

        Raises `ResourceNotFoundError` if there is none.
        """
        if mechanisms is None:
            chosen = (await self.describe(name)).mechanisms
            if not chosen:
                raise ResourceNotFoundError(f"user {name}")
        else:
            chosen = _mechanisms(mechanisms)
        for mechanism in chosen:
            deletion = ScramCredentialDeletion(
                name=checks.text("name", name), mechanism=_NUMBERS[mechanism]
            )
            request = AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=())
            await self._alter(name, request, done_if=_NO_CREDENTIAL)

    async def _ask(
        self, names: Iterable[str], deadline_s: float
    ) -> DescribeUserScramCredentialsResponse:
        # No names ask for all users. So does None, but if that is forbidden, Kafka never answers.
        asked = tuple(UserName(name=name) for name in names)
        request = DescribeUserScramCredentialsRequest(users=asked)
        answer: DescribeUserScramCredentialsResponse = await self._caller.to_controller(
            request, deadline_s
        )
        error = error_of(answer.error_code, "users", answer.error_message)
        if error is not None:
            raise self._caller.forgetting_controller(error)
        return answer

    async def _alter(
        self,
        name: str,
        request: AlterUserScramCredentialsRequest,
        done_if: frozenset[ErrorCode] = frozenset(),
    ) -> None:
        async def attempt(_: object, deadline_s: float) -> Mapping[str, Result[None]]:
            answer: AlterUserScramCredentialsResponse = await self._caller.to_controller(
                request, deadline_s
            )
            results: dict[str, Result[None]] = {
                each.user: Result(
                    error=error_of(each.error_code, f"user {each.user}", each.error_message)
                )
                for each in answer.results
            }
            return self._caller.noting_controller(results)

        (await self._caller.settle([name], attempt, done_if=done_if)).get_all()


def _mechanisms(given: Iterable[SaslMechanism | str]) -> tuple[SaslMechanism, ...]:
    what = "a collection of SCRAM-SHA-256 and SCRAM-SHA-512"
    found = arguments.collection("mechanisms", what, given)
    if not found or any(each not in _SCRAM for each in found):
        checks.must_be("mechanisms", what, found)
    return tuple(dict.fromkeys(map(SaslMechanism, found)))


def _encoded(password: str) -> bytes:
    try:
        return password.encode()
    except UnicodeEncodeError:  # whose text has the password
        raise ConfigurationError("password must be encodable as UTF-8") from None


def _described(user: DescribeUserScramCredentialsResult) -> Result[UserDescription]:
    error = error_of(user.error_code, f"user {user.user}", user.error_message)
    if error is not None:
        return Result(error=error)
    known = {
        _BY_NUMBER[info.mechanism]: info.iterations
        for info in sorted(user.credential_infos, key=lambda info: info.mechanism)
        if info.mechanism in _BY_NUMBER
    }
    return Result(UserDescription(user.user, known))
