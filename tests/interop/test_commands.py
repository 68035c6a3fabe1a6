"""The commands for administrators on a real broker, where the protocol is Kafka's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.kafka_broker import KafkaBroker
from tests.live.daemon import eventually
from tests.live.desk import Desk

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def desk(kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:  # noqa: ARG001 - asked for its skip
    """A broker of our own with a topic and a group of one static member that has committed."""
    folder = tmp_path_factory.mktemp("desk") / "broker"
    with KafkaBroker(folder, {"group.initial.rebalance.delay.ms": 0}) as broker:
        desk = Desk(broker.bootstrap)
        desk.run("topics", "create", "orders", "3")
        with desk.static_member():
            yield desk


def test_topics_come_grow_and_go(desk: Desk) -> None:
    """Each step is said, and seen."""
    assert "Created jobs with 2 partitions." in desk.told("topics", "create", "jobs", "2")
    assert "jobs has 5 partitions now." in desk.told("topics", "grow", "jobs", "5")
    listed = {topic["name"]: topic["partitions"] for topic in desk.json("topics", "list")}
    assert (listed["jobs"], listed["orders"]) == (5, 3)
    assert "Deleted jobs." in desk.told("topics", "delete", "jobs")
    assert "exists" in desk.refused("topics", "create", "orders", "1")


def test_group_is_described(desk: Desk) -> None:
    """With what its member has, and what it committed."""
    assert "static  Stable  consumer" in desk.told("groups", "list")
    assert "static: Stable, cooperative-sticky" in desk.told("groups", "describe", "static")
    (member,) = desk.json("members", "list", "static")
    assert member["instance_id"] == "i1"
    assert desk.json("offsets", "show", "static")["orders[0]"]["offset"] == 7
    assert "nobody" in desk.refused("groups", "describe", "nobody")


def test_what_a_group_with_members_has_is_not_touched(desk: Desk) -> None:
    """The broker says so, and it is said in a sentence."""
    for words in (("groups", "delete", "static"), ("offsets", "reset", "static", "--to", "1")):
        assert "members" in desk.refused(*words)


def test_offsets_are_reset_and_a_group_deleted(desk: Desk) -> None:
    """Of a group without members."""
    desk.run("offsets", "reset", "idle", "--to", "4", "--topic", "orders:0-1")
    desk.run("offsets", "reset", "idle", "--shift", "3", "--topic", "orders:1")
    shown = desk.json("offsets", "show", "idle")
    assert [shown[f"orders[{number}]"]["offset"] for number in (0, 1)] == [4, 7]
    desk.run("offsets", "delete", "idle", "--topic", "orders:1")
    assert "orders[1]" not in desk.json("offsets", "show", "idle")
    assert "Deleted idle" in desk.told("groups", "delete", "idle")


def test_static_member_is_removed(desk: Desk) -> None:
    """By its instance; it comes back by itself, as a new member."""
    (before,) = desk.json("members", "list", "static")
    desk.run("members", "remove", "static", "--instance", "i1")
    eventually(
        lambda: (
            [m["member_id"] for m in desk.json("members", "list", "static")]
            != [before["member_id"]]
        ),
        "another member id, or none",
    )
