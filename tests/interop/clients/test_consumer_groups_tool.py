"""`kafka-consumer-groups` from Kafka's own distribution, against a live daemon."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from coterie_client import Admin
from tests.interop.java_tools import CONSUMER_GROUPS, kafka_tool, toolchain_problem
from tests.live.crew import ALL, Crew
from tests.live.daemon import Daemon
from tests.live.member import CONFLUENT, MemberProcess

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def _toolchain() -> None:
    problem = toolchain_problem()
    if problem is not None:
        pytest.skip(problem)


@pytest.fixture
def crew(daemon: Daemon, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    """Give a group of its own to the test."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name).strip("-")
    # A topic of its own, too: how far other groups got there shows in its ends.
    topic = f"topic-of-{name}"
    with closing(KafkaAdminClient(bootstrap_servers=daemon.address)) as admin:
        admin.create_topics({topic: {"num_partitions": len(ALL)}})
    with Crew(daemon, name, tmp_path, topic=topic) as crew:
        yield crew


@pytest.fixture
def member(crew: Crew) -> MemberProcess:
    """Give the only member of the group, which has committed for two partitions."""
    member = crew.start(CONFLUENT, "member")
    crew.settle(member)
    member.commit({0: 5, 1: 6})
    return member


def commit(daemon: Daemon, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Set offsets of a group without members."""

    async def set_offsets() -> None:
        async with Admin(daemon.address) as admin:
            await admin.offsets.set(group, offsets)

    asyncio.run(set_offsets())


def tool(daemon: Daemon, *arguments: str) -> str:
    """Run the tool and return what it printed."""
    return kafka_tool(CONSUMER_GROUPS, "--bootstrap-server", daemon.address, *arguments).stdout


def table(printed: str, *columns: str) -> list[tuple[str, ...]]:
    """These columns of a table that was printed, row by row."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(at for at, words in enumerate(lines) if set(columns) <= set(words))
    places = [lines[start].index(column) for column in columns]
    return [tuple(words[place] for place in places) for words in lines[start + 1 :]]


@pytest.mark.usefixtures("member")
def test_groups_are_listed(crew: Crew) -> None:
    """The group is there, with its state."""
    listed = table(tool(crew.daemon, "--list", "--state"), "GROUP", "STATE")
    assert (crew.group, "Stable") in listed


@pytest.mark.usefixtures("member")
def test_offsets_are_described(crew: Crew) -> None:
    """Every partition with its offset, if it has one, and who has it."""
    printed = tool(crew.daemon, "--describe", "--group", crew.group)
    rows = table(printed, "PARTITION", "CURRENT-OFFSET", "CLIENT-ID", "HOST")
    offsets = {"0": "5", "1": "6"}
    assert rows == [
        (str(partition), offsets.get(str(partition), "-"), "member", "/127.0.0.1")
        for partition in sorted(ALL)
    ]


@pytest.mark.usefixtures("member")
def test_lag_is_counted_from_the_farthest_group(crew: Crew, daemon: Daemon) -> None:
    """Whoever is farthest has none, and nobody has less than none."""
    topic = crew.topic
    commit(daemon, f"{crew.group}-ahead", {(topic, 0): 19})
    printed = tool(crew.daemon, "--describe", "--group", crew.group)
    columns = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    assert table(printed, *columns)[:3] == [
        ("0", "5", "19", "14"),
        ("1", "6", "6", "0"),
        ("2", "-", "0", "-"),
    ]


@pytest.mark.usefixtures("member")
def test_members_are_described(crew: Crew) -> None:
    """Each with what it was assigned."""
    printed = tool(crew.daemon, "--describe", "--group", crew.group, "--members", "--verbose")
    assert table(printed, "CLIENT-ID", "#PARTITIONS", "CURRENT-ASSIGNMENT") == [
        ("member", "6", f"{crew.topic}:0,1,2,3,4,5")
    ]


@pytest.mark.usefixtures("member")
def test_state_is_described(crew: Crew) -> None:
    """The coordinator is this node, and the strategy the one that was voted for."""
    printed = tool(crew.daemon, "--describe", "--group", crew.group, "--state")
    found = re.search(r"(?P<coordinator>\S+)\s+\(1\)\s+range\s+Stable\s+1$", printed, re.MULTILINE)
    assert found is not None
    assert found["coordinator"] == crew.daemon.address


@pytest.mark.usefixtures("member")
def test_group_in_use_is_left_alone(crew: Crew) -> None:
    """Neither is it deleted, nor its offsets, nor are they reset; and it says why."""
    group = ("--group", crew.group)
    assert "GroupNotEmptyException" in tool(crew.daemon, "--delete", *group)
    deleted = tool(crew.daemon, "--delete-offsets", *group, "--topic", crew.topic)
    assert "GroupSubscribedToTopicException" in deleted
    reset = tool(
        crew.daemon, "--reset-offsets", *group, "--topic", crew.topic, "--to-earliest", "--execute"
    )
    assert "can only be reset if the group" in reset
    assert crew.look()["offsets"] == 2


def test_group_without_members_is_deleted(crew: Crew, member: MemberProcess) -> None:
    """When the last member has left, the group can go, offsets and all."""
    member.close()
    printed = tool(crew.daemon, "--delete", "--group", crew.group)
    assert "was successful" in printed
    assert crew.group not in tool(crew.daemon, "--list").split()


def test_offsets_are_deleted(crew: Crew, member: MemberProcess) -> None:
    """Those of one partition go, those of the other stay."""
    member.close()
    topic = f"{crew.topic}:0"
    printed = tool(crew.daemon, "--delete-offsets", "--group", crew.group, "--topic", topic)
    assert table(printed, "TOPIC", "PARTITION", "STATUS") == [(crew.topic, "0", "Successful")]
    described = tool(crew.daemon, "--describe", "--group", crew.group)
    assert table(described, "PARTITION", "CURRENT-OFFSET") == [("1", "6")]


def test_offsets_are_reset(crew: Crew, member: MemberProcess) -> None:
    """To the beginning, for all partitions, those without an offset included."""
    member.close()
    group = ("--group", crew.group)
    printed = tool(
        crew.daemon, "--reset-offsets", *group, "--topic", crew.topic, "--to-earliest", "--execute"
    )
    expected = [(str(partition), "0") for partition in sorted(ALL)]
    assert sorted(table(printed, "PARTITION", "NEW-OFFSET")) == expected
    described = tool(crew.daemon, "--describe", *group)
    assert sorted(table(described, "PARTITION", "CURRENT-OFFSET")) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 19, 1: 6}),
        (["--to-offset", "3"], {0: 3, 1: 3}),
        (["--to-offset", "12"], {0: 12, 1: 6}),
        (["--shift-by", "-2"], {0: 3, 1: 4}),
        (["--shift-by", "1"], {0: 6, 1: 6}),
        (["--to-current"], {0: 5, 1: 6}),
        (["--to-datetime", "2020-01-01T00:00:00.000"], {0: 19, 1: 6}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_offsets_are_reset_up_to_the_end(
    crew: Crew, member: MemberProcess, how: list[str], expected: dict[int, int]
) -> None:
    """Anywhere from 0 to where the farthest group is; what is beyond becomes that, with a warning.

    There is no record of any time, and where none is found the tool goes to the end.
    """
    member.close()
    commit(crew.daemon, f"{crew.group}-ahead", {(crew.topic, 0): 19})
    chosen = ("--group", crew.group, "--topic", f"{crew.topic}:0,1")
    printed = tool(crew.daemon, "--reset-offsets", *chosen, *how, "--execute")
    rows = sorted((str(partition), str(offset)) for partition, offset in expected.items())
    assert sorted(table(printed, "PARTITION", "NEW-OFFSET")) == rows
    described = tool(crew.daemon, "--describe", "--group", crew.group)
    assert sorted(table(described, "PARTITION", "CURRENT-OFFSET")) == rows


def test_reset_is_tried_first(crew: Crew, member: MemberProcess) -> None:
    """Without --execute it shows what it would do and does nothing."""
    member.close()
    group = ("--group", crew.group)
    tool(
        crew.daemon, "--reset-offsets", *group, "--topic", crew.topic, "--to-earliest", "--dry-run"
    )
    described = tool(crew.daemon, "--describe", *group)
    assert table(described, "PARTITION", "CURRENT-OFFSET") == [("0", "5"), ("1", "6")]
