"""The logs of a real broker, and what it stored, against what the members saw."""

from __future__ import annotations

import pytest

from coterie_protocol.journal import (
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_protocol.journal_text import Audit, read_lines
from coterie_testing.replay import read_recording
from tests.interop.kafka_tale import (
    CHAPTERS,
    CLIENTS,
    PARTITIONS,
    SESSION_MS,
    TOPIC,
    Tale,
    journal_files,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.parametrize("group", [client.name for client in CLIENTS]),
]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_journal_has_what_the_members_had(tale: Tale, group: str, chapter: str) -> None:
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
    shares = [sorted(partitions.get(TOPIC, ())) for partitions in assigned.values()]
    assert sorted(shares) == sorted(sorted(owned) for owned in seen.values())


def test_every_rebalance_is_there(tale: Tale, group: str) -> None:
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


def test_causes_are_what_was_done(tale: Tale, group: str) -> None:
    """Members came, one left, one died; more is only what the clients do of themselves."""
    causes = {event.cause for event in tale.of(group, RebalanceStarted)}
    assert causes >= {"member_joined", "member_left", "session_expired"}
    own = {"revocation_follow_up", "leader_rejoined", "topic_changed", "subscription_changed"}
    assert causes <= {"member_joined", "member_left", "session_expired", *own}


def test_cooperative_members_join_again_after_giving_up(tale: Tale, group: str) -> None:
    """Such a rebalance follows the one that asked for it."""
    follow_ups = [
        event for event in tale.of(group, RebalanceStarted) if event.cause == "revocation_follow_up"
    ]
    assert bool(follow_ups) == tale.crews[group].client.is_cooperative
    assert all(event.follows == event.generation for event in follow_ups)


def test_members_go_as_they_went(tale: Tale, group: str) -> None:
    """The farewell and the death, by the members' own names and with what they had."""
    names = {event.member: event.client_id for event in tale.of(group, MemberJoined)}
    gone = {names[event.member]: event for event in tale.of(group, MemberGone)[:2]}
    assert (gone["bert"].how, gone["anna"].how) == ("left", "session_expired")
    assert gone["anna"].silent_ms == gone["anna"].session_timeout_ms == SESSION_MS
    before = tale.crews[group].seen["farewell"][1]
    assert sorted(gone["anna"].owned.get(TOPIC, ())) == sorted(before["anna"])


def test_static_member_takes_its_place_again(tale: Tale, group: str) -> None:
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


def test_commits_are_there(tale: Tale, group: str) -> None:
    """With the offsets that were committed."""
    _, seen = tale.crews[group].seen["commit"]
    wanted = {str(number): 7 for number in seen["carl"]}
    assert {TOPIC: wanted} in [event.offsets for event in tale.of(group, OffsetsCommitted)]


def test_group_can_be_played_again(tale: Tale, group: str) -> None:
    """With the topic, and its members' topics and timeouts."""
    recording = read_recording(tale.lines, group)
    assert recording.topics == {TOPIC: len(PARTITIONS)}
    assert {member.session_ms for member in recording.members} == {SESSION_MS}


def test_every_line_of_the_coordinator_is_understood(tale: Tale, group: str) -> None:
    """In this version of Kafka."""
    assert tale.imported.not_understood == ()
    assert tale.imported.unknown_reasons == {}
    assert tale.imported.dump.unreadable == {}
    assert tale.imported.groups == len(tale.crews), group


def test_journal_is_whole(tale: Tale, group: str) -> None:
    """No gap, no repetition, nothing that can't be read."""
    audit = Audit()
    for path in journal_files(tale.out):
        with path.open(encoding="utf-8", newline="\n") as texts:
            for entry in read_lines(texts):
                audit.note(entry)
    assert audit.report().is_whole, group
