"""What the threat model says of stolen passwords and HTTP tokens, on a daemon."""

from __future__ import annotations

import asyncio
import http.client
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acls import Operation, PatternType, Permission, ResourceType
from tests.interop.differential.wire import Connection
from tests.live.daemon import HOST, Daemon, eventually
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

KNOWN_S: Final = 60.0
GROUP: Final = "orders"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A daemon where users log in by PLAIN, and ACLs hold."""

    daemon: Daemon
    port: int
    token: Path


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """Run it."""
    (tmp_path / "users").write_text("admin:admin-secret\nann:ann-secret\n")
    token = tmp_path / "read-token"
    token.write_text("first")
    port = free_port()
    with Daemon(
        tmp_path / "daemon",
        settings={
            "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "bootstrap.users.file": str(tmp_path / "users"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "http.read.token.file": str(token),
        },
        arguments=("--listen", f"IN://{HOST}:{port}"),
    ) as daemon:
        yield Guarded(daemon, port, token)


async def log_in(connection: Connection, user: str) -> int:
    """The error of a login."""
    await connection.send(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    proof = f"\0{user}\0{user}-secret".encode()
    answer = await connection.send(m.SaslAuthenticateRequest(auth_bytes=proof), 2)
    code: int = answer.error_code
    return code


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """A connection that is closed afterwards."""
    connection = await Connection.open(HOST, port, None)
    try:
        yield connection
    finally:
        await connection.close()


async def code_of_login(port: int, user: str) -> int:
    """The error of a login on a connection of its own."""
    async with connected(port) as connection:
        return await log_in(connection, user)


async def beat(connection: Connection) -> int:
    """The error of a heartbeat: of a member that is not there, if the client may ask."""
    asked = m.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    code: int = (await connection.send(asked, 4)).error_code
    return code


def acl(permission: Permission) -> m.CreateAclsRequest:
    """That Ann may be a member of the group, or may not."""
    creation = m.AclCreation(
        resource_type=ResourceType.GROUP,
        resource_name=GROUP,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ann",
        host="*",
        operation=Operation.READ,
        permission_type=permission,
    )
    return m.CreateAclsRequest(creations=(creation,))


async def becomes(connection: Connection, code: int) -> None:
    """Wait for what heartbeats are answered to change."""
    loop = asyncio.get_running_loop()
    until = loop.time() + KNOWN_S
    while await beat(connection) != code:
        assert loop.time() < until
        await asyncio.sleep(0.02)


async def remove(admin: Connection, user: str) -> None:
    """Have a user's passwords deleted."""
    for mechanism in (1, 2):
        gone = m.ScramCredentialDeletion(name=user, mechanism=mechanism)
        asked = m.AlterUserScramCredentialsRequest(deletions=(gone,), upsertions=())
        await admin.send(asked, 0)


def test_deleted_user_is_not_back_after_a_restart(guarded: Guarded) -> None:
    """Though the file of first users still has the name."""

    async def send_away() -> None:
        async with connected(guarded.port) as admin:
            assert await log_in(admin, "admin") == ErrorCode.NONE
            await remove(admin, "ann")

    asyncio.run(send_away())
    guarded.daemon.restart(signal.SIGTERM)
    assert asyncio.run(code_of_login(guarded.port, "ann")) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert asyncio.run(code_of_login(guarded.port, "admin")) == ErrorCode.NONE
    assert "were removed, and stay so" in guarded.daemon.whole_log()


def test_deleted_user_stays_on_its_connection_until_it_is_denied(guarded: Guarded) -> None:
    async def check() -> None:
        async with connected(guarded.port) as admin, connected(guarded.port) as ann:
            assert await log_in(admin, "admin") == ErrorCode.NONE
            assert await log_in(ann, "ann") == ErrorCode.NONE
            await admin.send(acl(Permission.ALLOW), 3)
            await becomes(ann, ErrorCode.UNKNOWN_MEMBER_ID)
            await remove(admin, "ann")
            async with asyncio.timeout(KNOWN_S):
                while await code_of_login(guarded.port, "ann") == ErrorCode.NONE:
                    pass
            assert await beat(ann) == ErrorCode.UNKNOWN_MEMBER_ID
            await admin.send(acl(Permission.DENY), 3)
            await becomes(ann, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    asyncio.run(check())


def test_replaced_http_token_is_refused_on_an_open_connection(guarded: Guarded) -> None:
    connection = http.client.HTTPConnection(HOST, guarded.daemon.http_port, timeout=60)

    def status(token: str) -> int:
        connection.request("GET", "/v1/groups", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    assert status("first") == 200
    guarded.token.write_text("second")
    guarded.daemon.process.send_signal(signal.SIGHUP)
    eventually(lambda: status("second") == 200, guarded.daemon.log)
    assert status("first") == 401
    connection.close()
