"""DescribeUserScramCredentials (50): which users have which SCRAM credentials."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
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
    "CredentialInfo",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResult",
    "UserName",
]


@struct()
class UserName:
    """A user that is asked for."""

    name: str = field(STRING)


@request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """The users that are asked for; None or an empty list asks for all of them."""

    users: tuple[UserName, ...] | None = field(Array(UserName), nullable="0+")


@struct()
class CredentialInfo:
    """A mechanism for which a user has a credential."""

    mechanism: int = field(INT8)
    iterations: int = field(INT32)


@struct()
class DescribeUserScramCredentialsResult:
    """The mechanisms of one user, or an error."""

    user: str = field(STRING)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")
    credential_infos: tuple[CredentialInfo, ...] = field(Array(CredentialInfo))


@response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """The mechanisms of each user; never a salt or a password."""

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")
    results: tuple[DescribeUserScramCredentialsResult, ...] = field(
        Array(DescribeUserScramCredentialsResult)
    )
