"""Clients of other languages whose coordinator is stopped, while another one is there.

They are told so before their connections are closed, and most carry on; those that rebalance at
any change of their coordinator do so once, and don't join beside their former selves.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ha.nodes import FailingNode, Nodes, running_nodes
from tests.interop.clients.toolchains import (
    ToolMissingError,
    franz_go_command,
    java_command,
    kafkajs_command,
)
from tests.live.daemon import eventually
from tests.live.group import TOPIC
from tests.live.member import Client, MemberProcess
from tests.live.programs.lines import Options

MEMBERS: Final = 2
PARTITIONS: Final = 4
#: Long enough for no member to be dropped while a test runs, and for many heartbeats.
SESSION_MS: Final = 120_000
HEARTBEAT_MS: Final = 500

CARRY_ON: Final = (
    Client("java", java_command, "range"),
    Client("franz-go", franz_go_command, "range"),
)
REBALANCE: Final = (Client("kafkajs", kafkajs_command, "roundrobin"),)

pytestmark = pytest.mark.interop


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes that have shared out the shards."""
    store = f"sqlite:{tmp_path / 'shared.db'}"
    with running_nodes(store, tmp_path, {TOPIC: PARTITIONS}) as nodes:
        nodes.wait_until_shared()
        yield nodes


@dataclass(frozen=True, slots=True)
class Seen:
    """A group before its coordinator was stopped, and after all members have found the next."""

    before: dict[str, Any]
    after: dict[str, Any]


@pytest.mark.parametrize("client", CARRY_ON, ids=str)
def test_members_carry_on(client: Client, nodes: Nodes, tmp_path: Path) -> None:
    seen = stop_coordinator(client, nodes, tmp_path)
    assert seen.after["generation"] == seen.before["generation"]
    assert member_ids(seen.after) == member_ids(seen.before)


@pytest.mark.parametrize("client", REBALANCE, ids=str)
def test_members_do_not_join_beside_themselves(
    client: Client, nodes: Nodes, tmp_path: Path
) -> None:
    seen = stop_coordinator(client, nodes, tmp_path)
    assert member_ids(seen.after) == member_ids(seen.before)


def stop_coordinator(client: Client, nodes: Nodes, folder: Path) -> Seen:
    """Have members work under one node, and that node stop."""
    try:
        client.command()
    except ToolMissingError as error:
        pytest.skip(str(error))
    leaving, staying = nodes.both
    group = nodes.group_on(leaving)
    with contextlib.ExitStack() as stack:
        for number in range(MEMBERS):
            options = Options(
                bootstrap=staying.address,
                group=group,
                topic=TOPIC,
                client=f"{client.name}-{number}",
                assignor=client.assignor,
                session_ms=SESSION_MS,
                heartbeat_ms=HEARTBEAT_MS,
            )
            stack.callback(MemberProcess(client, options, folder).die)
        before = when_all_have_asked(leaving, group)
        leaving.end()
        return Seen(before, when_all_have_asked(staying, group))


def when_all_have_asked(node: FailingNode, group: str) -> dict[str, Any]:
    """The group, as soon as a node serves it and all its members have come to it from now on."""
    since_ms, seen = time.time() * 1000, dict[str, Any]()

    def is_so() -> bool:
        with contextlib.suppress(OSError):  # the node has it not yet
            seen.update(node.get(f"/v1/groups/{group}"))
        members = seen.get("members", ())
        is_whole = seen.get("state") == "Stable" and len(members) >= MEMBERS
        return is_whole and all(each["last_seen_ms"] > since_ms for each in members)

    eventually(is_so, lambda: f"all members of {group} have come: {seen}")
    return seen


def member_ids(group: dict[str, Any]) -> set[str]:
    """Who is in a group."""
    return {each["member"] for each in group["members"]}
