"""The logs of a real broker, and what it stored, against what the members saw.

Groups of stock clients live through the same chapters at the same time: members come, leave, are
killed and come back under their names.  Then the broker's log is imported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import KafkaAdminClient

from coterie_pipeline.kafka_logs import Imported, import_logs
from coterie_protocol.journal import (
    Event,
    Line,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
    read_line,
)
from coterie_protocol.journal_text import Audit, read_lines
from coterie_testing.replay import play_of
from tests.interop.clients.toolchains import java_command
from tests.interop.kafka_broker import KafkaBroker
from tests.live.member import CONFLUENT, CONFLUENT_COOPERATIVE, Client, MemberProcess
from tests.live.programs.lines import Options

_JAVA: Final = Client("java", java_command, "cooperative-sticky", is_cooperative=True)

#: One group for each of these clients, called by its name.
_CLIENTS: Final = (CONFLUENT, CONFLUENT_COOPERATIVE, _JAVA)

_TOPIC: Final = "work"
_ALL: Final = frozenset(range(4))

_SESSION_MS: Final = 6_000
_SETTLE_S: Final = 60.0
_CALM_S: Final = 1.5

pytestmark = [
    pytest.mark.interop,
    pytest.mark.parametrize("group", [client.name for client in _CLIENTS]),
]


@dataclass(slots=True)
class _Crew:
    """The members of one group."""

    client: Client
    broker: KafkaBroker
    folder: Path
    members: dict[str, MemberProcess] = field(default_factory=dict)
    #: After each chapter: when it was, in milliseconds, and who had what.
    seen: dict[str, tuple[int, Mapping[str, set[int]]]] = field(default_factory=dict)

    def start(self, name: str, instance: str | None = None) -> None:
        options: dict[str, Any] = {} if instance is None else {"instance": instance}
        self.members[name] = MemberProcess(
            self.client,
            Options(
                client=name,
                bootstrap=self.broker.bootstrap,
                group=self.client.name,
                topic=_TOPIC,
                assignor=self.client.assignor,
                session_ms=_SESSION_MS,
                heartbeat_ms=200,
                **options,
            ),
            self.folder,
        )

    def settle(self, chapter: str) -> None:
        """Wait until all partitions are shared and nobody stirs; note who has what."""
        deadline = time.monotonic() + _SETTLE_S
        before: dict[str, set[int]] = {}
        while True:
            now = {name: set(member.owned) for name, member in self.members.items()}
            shared = sorted(number for owned in now.values() for number in owned)
            if shared == sorted(_ALL) and all(now.values()) and now == before:
                break
            assert time.monotonic() < deadline, f"{self.client}: {chapter}: {now}"
            before = now
            time.sleep(_CALM_S)
        self.seen[chapter] = (int(time.time() * 1000), now)

    def end(self) -> None:
        for member in self.members.values():
            member.die()


def _first(crew: _Crew) -> None:
    crew.start("anna")


def _second(crew: _Crew) -> None:
    crew.start("bert")


def _third(crew: _Crew) -> None:
    crew.start("carl", instance="carl")


def _commit(crew: _Crew) -> None:
    carl = crew.members["carl"]
    carl.commit(dict.fromkeys(carl.owned, 7))


def _farewell(crew: _Crew) -> None:
    crew.members.pop("bert").close()


def _death(crew: _Crew) -> None:
    crew.members.pop("anna").die()


def _return(crew: _Crew) -> None:
    # Some clients take longer to start than a session lasts: the new one pushes the old one out.
    crew.start("carla", instance="carl")
    carla = crew.members["carla"]
    carla.wait_for(lambda: carla.owned, "it has what carl had")
    crew.members.pop("carl").die()


_CHAPTERS: Final = {
    "first": _first,
    "second": _second,
    "third": _third,
    "commit": _commit,
    "farewell": _farewell,
    "death": _death,
    "return": _return,
}


@dataclass(frozen=True, slots=True)
class _Tale:
    """What the members saw, and what was imported."""

    crews: Mapping[str, _Crew]
    imported: Imported
    out: Path
    lines: tuple[Line, ...]

    def of(self, group: str, *kinds: type[Event]) -> list[Any]:
        return [
            line.event
            for line in self.lines
            if line.event.group == group and isinstance(line.event, kinds)
        ]


@pytest.fixture(scope="module")
def tale(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    java_compiler: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> _Tale:
    """Let the groups live, and import what the broker leaves behind."""
    folder = tmp_path_factory.mktemp("logs")
    with KafkaBroker(folder / "broker", {"group.initial.rebalance.delay.ms": 300}) as broker:
        crews = _live(broker, folder)
    imported, lines = _import(broker, folder / "out")
    return _Tale(crews, imported, folder / "out", lines)


def _live(broker: KafkaBroker, folder: Path) -> dict[str, _Crew]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({_TOPIC: {"num_partitions": len(_ALL)}}, wait_for_metadata=True)
    admin.close()
    crews = {}
    for client in _CLIENTS:
        (folder / client.name).mkdir()
        crews[client.name] = _Crew(client, broker, folder / client.name)
    try:
        for chapter, happen in _CHAPTERS.items():
            for crew in crews.values():
                happen(crew)
            for crew in crews.values():
                crew.settle(chapter)
    finally:
        for crew in crews.values():
            crew.end()
    return crews


def _import(broker: KafkaBroker, out: Path) -> tuple[Imported, tuple[Line, ...]]:
    local = datetime.now().astimezone().tzinfo
    assert local is not None
    imported = import_logs([broker.log_path], out, dump=broker.data_dir, zone=local)
    texts = [text for path in _files(out) for text in path.read_text().splitlines()]
    return imported, tuple(read_line(text) for text in texts)


def _files(out: Path) -> list[Path]:
    return sorted(out.glob("journal-*.jsonl"))


@pytest.mark.parametrize("chapter", _CHAPTERS)
def test_journal_has_what_the_members_had(tale: _Tale, group: str, chapter: str) -> None:
    """At the end of each chapter the same shares."""
    at_ms, seen = tale.crews[group].seen[chapter]
    completed = [
        line.event
        for line in tale.lines
        if line.ts <= at_ms
        and line.event.group == group
        and isinstance(line.event, RebalanceCompleted)
    ]
    assigned = completed[-1].assigned
    assert assigned is not None
    shares = [sorted(partitions.get(_TOPIC, ())) for partitions in assigned.values()]
    assert sorted(shares) == sorted(sorted(owned) for owned in seen.values())


def test_every_rebalance_is_there(tale: _Tale, group: str) -> None:
    """Each generation has one, and its assignment unless the next one overtook it."""
    started = tale.of(group, RebalanceStarted)
    generations = [event.generation for event in started]
    assert generations == list(range(len(started)))
    done = {event.generation - 1 for event in tale.of(group, RebalanceCompleted)}
    overtaken = {
        event.generation - 1 for event in started if event.from_state == "CompletingRebalance"
    }
    # When the tale is over, the members die one after the other, and then the broker stops.
    assert set(generations[:-1]) <= done | overtaken
    assert not done & overtaken


def test_causes_are_what_was_done(tale: _Tale, group: str) -> None:
    """Members came, one left, one died; more is only what the clients do of themselves."""
    causes = {event.cause for event in tale.of(group, RebalanceStarted)}
    assert causes >= {"member_joined", "member_left", "session_expired"}
    own = {"revocation_follow_up", "leader_rejoined", "topic_changed", "subscription_changed"}
    assert causes <= {"member_joined", "member_left", "session_expired", *own}


def test_cooperative_members_join_again_after_giving_up(tale: _Tale, group: str) -> None:
    """Such a rebalance follows the one that asked for it."""
    follow_ups = [
        event for event in tale.of(group, RebalanceStarted) if event.cause == "revocation_follow_up"
    ]
    assert bool(follow_ups) == tale.crews[group].client.is_cooperative
    assert all(event.follows == event.generation for event in follow_ups)


def test_members_go_as_they_went(tale: _Tale, group: str) -> None:
    """The farewell and the death, by the members' own names and with what they had."""
    names = {event.member: event.client_id for event in tale.of(group, MemberJoined)}
    gone = {names[event.member]: event for event in tale.of(group, MemberGone)[:2]}
    assert (gone["bert"].how, gone["anna"].how) == ("left", "session_expired")
    assert gone["anna"].silent_ms == gone["anna"].session_timeout_ms == _SESSION_MS
    before = tale.crews[group].seen["farewell"][1]
    assert sorted(gone["anna"].owned.get(_TOPIC, ())) == sorted(before["anna"])


def test_static_member_takes_its_place_again(tale: _Tale, group: str) -> None:
    """It is the same name, another process and no rebalance."""
    (replaced,) = tale.of(group, MemberReplaced)
    assert replaced.instance == "carl"
    assert replaced.member != replaced.former_member
    at_ms = tale.crews[group].seen["death"][0]
    until_ms = tale.crews[group].seen["return"][0]
    within = [line for line in tale.lines if at_ms < line.ts <= until_ms]
    assert not [
        line
        for line in within
        if line.event.group == group and isinstance(line.event, RebalanceStarted)
    ]


def test_commits_are_there(tale: _Tale, group: str) -> None:
    """With the offsets that were committed."""
    _, seen = tale.crews[group].seen["commit"]
    wanted = {str(number): 7 for number in seen["carl"]}
    assert {_TOPIC: wanted} in [event.offsets for event in tale.of(group, OffsetsCommitted)]


def test_group_can_be_played_again(tale: _Tale, group: str) -> None:
    """With the topic, and its members' topics and timeouts."""
    play = play_of(tale.lines, group)
    assert play.topics == {_TOPIC: len(_ALL)}
    assert {life.session_ms for life in play.lives} == {_SESSION_MS}


def test_every_line_of_the_coordinator_is_understood(tale: _Tale, group: str) -> None:
    """In this version of Kafka."""
    assert tale.imported.not_understood == ()
    assert tale.imported.unknown_reasons == {}
    assert tale.imported.dump.unreadable == {}
    assert tale.imported.groups == len(tale.crews), group


def test_journal_is_whole(tale: _Tale, group: str) -> None:
    """No gap, no repetition, nothing that can't be read."""
    audit = Audit()
    for path in _files(tale.out):
        with path.open(encoding="utf-8", newline="\n") as texts:
            for entry in read_lines(texts):
                audit.note(entry)
    assert audit.report().is_whole, group
