"""DescribeUserScramCredentials and AlterUserScramCredentials: the users and their passwords.

Passwords never come here: clients salt them, and what is kept can't be logged in with.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)
from coterie_server.security.records import CredentialRecord
from coterie_server.step import fitting
from coterie_server.topics.work import CHANGES_AT_ONCE
from coterie_server.turns import Piece, begin

if TYPE_CHECKING:
    from coterie_server.step import Request
    from coterie_server.topics.step import Step
    from coterie_server.turns import Making, Unfinished

__all__ = ["alter_users", "describe_users"]

#: How long a user's name may be; as long as those of SASL are in most servers.
_NAME_MAX_BYTES: Final = 255
#: How long a salt may be; clients make some twenty bytes.
_SALT_MAX_BYTES: Final = 1_024

_TWICE: Final = "A user credential cannot be altered twice in the same request"
_NOT_THERE: Final = "Attempt to delete a user credential that does not exist"


class _Problem(NamedTuple):
    code: ErrorCode
    text: str


# -- describing --------------------------------------------------------------------------------


def describe_users(
    step: Step, request: Request
) -> m.DescribeUserScramCredentialsResponse | Unfinished:
    """Tell which users have passwords, for which mechanisms."""
    message: m.DescribeUserScramCredentialsRequest = request.message
    kept = step.rights.credentials
    times = Counter(user.name for user in message.users or ())
    names = times or Counter(dict.fromkeys(kept, 1))
    infos = {name: _infos(kept.get(name, {})) for name in names}
    return begin(_describe(names, infos))


def _infos(kept: dict[ScramMechanism, ScramCredential]) -> tuple[m.CredentialInfo, ...]:
    return tuple(
        m.CredentialInfo(mechanism=mechanism, iterations=kept[mechanism].iterations)
        for mechanism in sorted(kept)
    )


def _describe(
    times: Counter[str], infos: dict[str, tuple[m.CredentialInfo, ...]]
) -> Making[m.DescribeUserScramCredentialsResponse]:
    piece = Piece()
    results = []
    for name, number in times.items():
        results.append(_describe_one(name, number, infos[name]))
        if piece.is_whole():
            yield
    return m.DescribeUserScramCredentialsResponse(error_message="", results=tuple(results))


def _describe_one(
    name: str, times: int, infos: tuple[m.CredentialInfo, ...]
) -> m.DescribeUserScramCredentialsResult:
    error, text = ErrorCode.NONE, ""
    if times > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        text = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif not infos:
        error = ErrorCode.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {name}"
    return m.DescribeUserScramCredentialsResult(
        user=name,
        error_code=error,
        error_message=fitting(text),
        credential_infos=() if error else infos,
    )


# -- altering ----------------------------------------------------------------------------------


def alter_users(step: Step, request: Request) -> Making[m.AlterUserScramCredentialsResponse]:
    """Set and delete what is kept of passwords; each user is changed once, or not at all."""
    message: m.AlterUserScramCredentialsRequest = request.message
    times = Counter(deletion.name for deletion in message.deletions)
    times.update(upsertion.name for upsertion in message.upsertions)
    problems: dict[str, _Problem | None] = {
        name: _Problem(ErrorCode.DUPLICATE_RESOURCE, _TWICE) if number > 1 else None
        for name, number in times.items()
    }
    piece = Piece(CHANGES_AT_ONCE)
    for deletion in message.deletions:
        if problems[deletion.name] is None:
            problems[deletion.name] = _delete(step, deletion)
        if piece.is_whole():
            yield
    for upsertion in message.upsertions:
        if problems[upsertion.name] is None:
            problems[upsertion.name] = _set(step, upsertion)
        if piece.is_whole():
            yield
    return m.AlterUserScramCredentialsResponse(
        results=tuple(_result(name, problem) for name, problem in problems.items())
    )


def _result(name: str, problem: _Problem | None) -> m.AlterUserScramCredentialsResult:
    code, text = problem if problem is not None else (ErrorCode.NONE, None)
    return m.AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)


def _delete(step: Step, deletion: m.ScramCredentialDeletion) -> _Problem | None:
    problem = _check(deletion.name, deletion.mechanism)
    if problem is not None:
        return problem
    mechanism = ScramMechanism(deletion.mechanism)
    if mechanism not in step.rights.credentials.get(deletion.name, ()):
        return _Problem(ErrorCode.RESOURCE_NOT_FOUND, _NOT_THERE)
    step.change_rights(CredentialRecord(deletion.name, mechanism, None))
    return None


def _set(step: Step, upsertion: m.ScramCredentialUpsertion) -> _Problem | None:
    problem = _check(upsertion.name, upsertion.mechanism) or _check_credential(upsertion)
    if problem is not None:
        return problem
    limit = step.config.max_users
    if upsertion.name not in step.rights.credentials and len(step.rights.credentials) >= limit:
        step.hit_limit("max.users", limit, f"user {upsertion.name}")
        text = f"There are {limit} users, and can't be more; max.users is the limit."
        return _Problem(ErrorCode.POLICY_VIOLATION, text)
    mechanism = ScramMechanism(upsertion.mechanism)
    credential = ScramCredential.of(
        mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations
    )
    step.change_rights(CredentialRecord(upsertion.name, mechanism, credential))
    return None


def _check(name: str, mechanism: int) -> _Problem | None:
    if not name:
        return _Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(name.encode()) > _NAME_MAX_BYTES:
        text = f"Username must not be longer than {_NAME_MAX_BYTES} bytes"
        return _Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    if mechanism not in tuple(ScramMechanism):
        return _Problem(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _check_credential(upsertion: m.ScramCredentialUpsertion) -> _Problem | None:
    text = ""
    if upsertion.iterations < ITERATIONS_MIN:
        text = "Too few iterations"
    elif upsertion.iterations > ITERATIONS_MAX:
        text = "Too many iterations"
    elif len(upsertion.salt) > _SALT_MAX_BYTES:
        text = f"The salt must not be longer than {_SALT_MAX_BYTES} bytes"
    return _Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, text) if text else None
