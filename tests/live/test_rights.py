"""Several nodes of a daemon with ACLs: what one passes on to another, it does as a node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.security.acls import Operation, PatternType, Permission, ResourceType
from tests.interop.differential.coterie_daemon import CoterieDaemon
from tests.interop.differential.users import SECURITY, log_in
from tests.interop.differential.wire import Connection

pytestmark = pytest.mark.slow

_KNOWN_S: Final = 60.0


async def ask(port: int, user: str, message: Any, version: int) -> Any:
    """Log in and ask."""
    connection = await Connection.open("127.0.0.1", port, None)
    try:
        await log_in(connection, user)
        return await connection.send(message, version)
    finally:
        await connection.close()


def heartbeat(group: str) -> m.HeartbeatRequest:
    """One of a member that is not there."""
    return m.HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


async def beats(ports: range, group: str) -> set[int]:
    """What the nodes answer to Ann's heartbeats."""
    answers = [await ask(port, "ann", heartbeat(group), 4) for port in ports]
    return {answer.error_code for answer in answers}


def acl(group: str) -> m.AclCreation:
    """That Ann may be a member of a group."""
    return m.AclCreation(
        resource_type=ResourceType.GROUP,
        resource_name=group,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ann",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )


def test_each_worker_changes_acls_and_all_go_by_them(tmp_path: Path) -> None:
    # Clients that do not log in may do nothing, as on a listener that others reach.
    settings: dict[str, str | int | bool] = {**SECURITY, "super.users": "User:admin"}
    settings["workers"] = 2
    daemon = CoterieDaemon(tmp_path / "coterie", settings)
    daemon.has_users = True
    daemon.start()
    own_ports = range(daemon.users_port + 1, daemon.users_port + 3)
    try:
        asyncio.run(_check(own_ports))
    finally:
        daemon.stop()
    assert "secret" not in daemon.log()


async def _check(ports: range) -> None:
    loop = asyncio.get_running_loop()
    for port in ports:
        group = f"g{port}"
        assert await beats(ports, group) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
        asked = m.CreateAclsRequest(creations=(acl(group),))
        (result,) = (await ask(port, "admin", asked, 3)).results
        assert result.error_code == 0
        known_by_s = loop.time() + _KNOWN_S
        while ErrorCode.GROUP_AUTHORIZATION_FAILED in await beats(ports, group):
            assert loop.time() < known_by_s
