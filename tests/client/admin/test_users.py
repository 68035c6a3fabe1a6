"""Users: what is asked, what is understood of the answers, and what never leaves the process."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from coterie_client.admin import UserDescription
from coterie_client.errors import ConfigurationError
from coterie_client.wire import SaslMechanism
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    ClusterAuthorizationFailedError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
)
from coterie_protocol.messages import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tests.client.admin.test_acls import Server

pytestmark = pytest.mark.asyncio

PASSWORD = "p²ss"  # noqa: S105  # of no account
SHA_256, SHA_512 = SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512


def described(
    error: int = 0, **users: dict[int, int] | ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """The answer to DescribeUserScramCredentials."""
    results = (
        DescribeUserScramCredentialsResult(
            user=name,
            error_code=found if isinstance(found, ErrorCode) else 0,
            error_message=None,
            credential_infos=()
            if isinstance(found, ErrorCode)
            else tuple(CredentialInfo(mechanism=m, iterations=i) for m, i in found.items()),
        )
        for name, found in users.items()
    )
    return DescribeUserScramCredentialsResponse(
        error_code=error, error_message=None, results=tuple(results)
    )


def altered(code: int = 0, name: str = "ann") -> AlterUserScramCredentialsResponse:
    """The answer to AlterUserScramCredentials."""
    result = AlterUserScramCredentialsResult(user=name, error_code=code, error_message=None)
    return AlterUserScramCredentialsResponse(results=(result,))


async def test_users_are_listed_by_name() -> None:
    server = Server(described(bob={2: 8192}, ann={2: 4096, 1: 8192, 99: 1}))
    async with server as admin:
        assert await admin.users.list() == (
            UserDescription("ann", {SHA_256: 8192, SHA_512: 4096}),
            UserDescription("bob", {SHA_512: 8192}),
        )
    assert server.asked[0].users == ()


async def test_user_that_does_not_exist_is_told() -> None:
    async with Server(described(ann=ErrorCode.RESOURCE_NOT_FOUND)) as admin:
        with pytest.raises(ResourceNotFoundError, match="user ann"):
            await admin.users.describe("ann")


async def test_refusal_is_raised() -> None:
    async with Server(described(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)) as admin:
        with pytest.raises(ClusterAuthorizationFailedError):
            await admin.users.list()


async def test_password_is_salted_here() -> None:
    server = Server(altered(), altered())
    async with server as admin:
        await admin.users.set_password("ann", PASSWORD, iterations=4096)
    sent = [message.upsertions[0] for message in server.asked]
    assert [(each.name, each.mechanism, each.iterations) for each in sent] == [
        ("ann", 1, 4096),
        ("ann", 2, 4096),
    ]
    for digest, each in zip(("sha256", "sha512"), sent, strict=True):
        salted = hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), each.salt, 4096)
        assert each.salted_password == salted
    assert len({each.salt for each in sent}) == 2
    assert all(message.deletions == () for message in server.asked)


async def test_salting_does_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    turned = asyncio.Event()

    def salt_once_the_loop_has_turned(*_: Any) -> bytes:
        asyncio.run_coroutine_threadsafe(asyncio.wait_for(turned.wait(), 60), loop).result(60)
        return b"salted"

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", salt_once_the_loop_has_turned)
    async with Server(altered()) as admin:
        setting = asyncio.create_task(
            admin.users.set_password("ann", PASSWORD, mechanisms=[SHA_256])
        )
        await asyncio.sleep(0)
        turned.set()
        await setting


async def test_refused_credential_is_raised_without_the_password() -> None:
    async with Server(altered(ErrorCode.UNACCEPTABLE_CREDENTIAL)) as admin:
        with pytest.raises(UnacceptableCredentialError, match="user ann") as caught:
            await admin.users.set_password("ann", PASSWORD)
    assert PASSWORD not in repr(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"password": ""},
        {"password": b"hunter2"},
        {"password": "hunter2\ud800"},
        {"iterations": 4095},
        {"iterations": 16385},
        {"mechanisms": "SCRAM-SHA-256"},
        {"mechanisms": []},
        {"mechanisms": ["PLAIN"]},
    ],
)
async def test_what_makes_no_sense_is_not_asked(options: Any) -> None:
    server = Server()
    async with server as admin:
        with pytest.raises(ConfigurationError, match="must be") as caught:
            await admin.users.set_password(**{"name": "ann", "password": PASSWORD, **options})
    assert "hunter2" not in f"{caught.value}"
    assert server.asked == []


async def test_user_is_deleted_with_all_credentials() -> None:
    server = Server(described(ann={1: 4096, 2: 4096}), altered(), altered())
    async with server as admin:
        await admin.users.delete("ann")
    deletions = [message.deletions[0] for message in server.asked[1:]]
    assert [(each.name, each.mechanism) for each in deletions] == [("ann", 1), ("ann", 2)]


async def test_one_credential_is_deleted() -> None:
    server = Server(altered())
    async with server as admin:
        await admin.users.delete("ann", mechanisms=["SCRAM-SHA-512"])
    assert [each.mechanism for each in server.asked[0].deletions] == [2]


async def test_credential_that_does_not_exist_is_told() -> None:
    async with Server(altered(ErrorCode.RESOURCE_NOT_FOUND)) as admin:
        with pytest.raises(ResourceNotFoundError):
            await admin.users.delete("ann", mechanisms=[SHA_256])
