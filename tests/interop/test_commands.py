"""The commands for administrators on a real broker, where the protocol is Kafka's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.kafka_broker import KafkaBroker
from tests.live.commands import CommandRunner
from tests.live.daemon import eventually

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def commands(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CommandRunner]:
    """A broker of our own with a topic and a group of one static member that has committed."""
    folder = tmp_path_factory.mktemp("commands") / "broker"
    with KafkaBroker(folder, {"group.initial.rebalance.delay.ms": 0}) as broker:
        commands = CommandRunner(broker.bootstrap)
        commands.run("topics", "create", "orders", "3")
        with commands.static_member():
            yield commands


def test_topics_are_created_grown_and_deleted(commands: CommandRunner) -> None:
    assert "Created jobs with 2 partitions." in commands.told("topics", "create", "jobs", "2")
    assert "jobs has 5 partitions now." in commands.told("topics", "grow", "jobs", "5")
    listed = {topic["topic"]: topic["partitions"] for topic in commands.json("topics", "list")}
    assert (listed["jobs"], listed["orders"]) == (5, 3)
    assert "Deleted jobs." in commands.told("topics", "delete", "jobs")
    assert "exists" in commands.refused("topics", "create", "orders", "1")


def test_group_is_described_with_what_its_member_owns(commands: CommandRunner) -> None:
    assert "static  Stable  consumer" in commands.told("groups", "list")
    assert "static: Stable, cooperative-sticky" in commands.told("groups", "describe", "static")
    (member,) = commands.json("members", "list", "static")
    assert member["instance"] == "i1"
    assert commands.json("offsets", "show", "static")["orders[0]"]["offset"] == 7
    assert "nobody" in commands.refused("groups", "describe", "nobody")


def test_offsets_of_a_group_with_members_are_refused_in_a_sentence(commands: CommandRunner) -> None:
    for words in (("groups", "delete", "static"), ("offsets", "reset", "static", "--to", "1")):
        assert "members" in commands.refused(*words)


def test_offsets_are_reset_and_a_group_deleted(commands: CommandRunner) -> None:
    commands.run("offsets", "reset", "idle", "--to", "4", "--topic", "orders:0-1")
    commands.run("offsets", "reset", "idle", "--shift", "3", "--topic", "orders:1")
    shown = commands.json("offsets", "show", "idle")
    assert [shown[f"orders[{number}]"]["offset"] for number in (0, 1)] == [4, 7]
    commands.run("offsets", "delete", "idle", "--topic", "orders:1")
    assert "orders[1]" not in commands.json("offsets", "show", "idle")
    assert "Deleted idle" in commands.told("groups", "delete", "idle")


def test_static_member_is_removed_by_its_instance_id(commands: CommandRunner) -> None:
    (before,) = commands.json("members", "list", "static")
    commands.run("members", "remove", "static", "--instance", "i1")
    eventually(
        lambda: (
            [m["member"] for m in commands.json("members", "list", "static")] != [before["member"]]
        ),
        "another member id, or none",
    )
