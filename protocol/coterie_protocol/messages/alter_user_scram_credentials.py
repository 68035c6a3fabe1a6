"""AlterUserScramCredentials (51): set and delete the SCRAM credentials of users."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "AlterUserScramCredentialsResult",
    "ScramCredentialDeletion",
    "ScramCredentialUpsertion",
]


@struct()
class ScramCredentialDeletion:
    """A credential to delete."""

    name: str = field(STRING)
    mechanism: int = field(INT8)


@struct()
class ScramCredentialUpsertion:
    """A credential to set; the password was salted by the client."""

    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES, secret=True)
    salted_password: bytes = field(BYTES, secret=True)


@request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+", surplus="0+")
class AlterUserScramCredentialsRequest:
    """Set and delete credentials."""

    deletions: tuple[ScramCredentialDeletion, ...] = field(Array(ScramCredentialDeletion))
    upsertions: tuple[ScramCredentialUpsertion, ...] = field(Array(ScramCredentialUpsertion))


@struct()
class AlterUserScramCredentialsResult:
    """Whether one user's credentials were changed."""

    user: str = field(STRING)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")


@response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """Whether each user's credentials were changed."""

    throttle_time_ms: int = field(INT32, default=0)
    results: tuple[AlterUserScramCredentialsResult, ...] = field(
        Array(AlterUserScramCredentialsResult)
    )
