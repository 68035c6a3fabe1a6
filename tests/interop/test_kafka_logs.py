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
from tests.interop.kafka_history import (
    CLIENTS,
    PARTITIONS,
    PHASES,
    SESSION_MS,
    TOPIC,
    KafkaHistory,
    journal_files,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.parametrize("group", [client.name for client in CLIENTS]),
]


@pytest.mark.parametrize("phase", PHASES)
def test_journal_has_the_assignments_of_each_phase(
    history: KafkaHistory, group: str, phase: str
) -> None:
    at_ms, seen = history.groups[group].seen[phase]
    completed = [
        line.event
        for line in history.lines
        if line.ts <= at_ms
        and line.event.group == group
        and isinstance(line.event, RebalanceCompleted)
    ]
    assigned = completed[-1].assigned
    assert assigned is not None
    shares = [sorted(partitions.get(TOPIC, ())) for partitions in assigned.values()]
    assert sorted(shares) == sorted(sorted(owned) for owned in seen.values())


def test_every_generation_has_its_rebalance(history: KafkaHistory, group: str) -> None:
    started = history.of(group, RebalanceStarted)
    generations = [event.generation for event in started]
    assert generations == list(range(len(started)))
    done = {event.generation - 1 for event in history.of(group, RebalanceCompleted)}
    overtaken = {
        event.generation - 1 for event in started if event.from_state == "CompletingRebalance"
    }
    # When the history is over, the members die one after the other, and then the broker stops.
    assert set(generations[:-1]) <= done | overtaken
    assert not done & overtaken


def test_causes_are_what_was_done(history: KafkaHistory, group: str) -> None:
    causes = {event.cause for event in history.of(group, RebalanceStarted)}
    assert causes >= {"member_joined", "member_left", "session_expired"}
    own = {"revocation_follow_up", "leader_rejoined", "topic_changed", "subscription_changed"}
    assert causes <= {"member_joined", "member_left", "session_expired", *own}


def test_cooperative_members_rejoin_after_revoking(history: KafkaHistory, group: str) -> None:
    follow_ups = [
        event
        for event in history.of(group, RebalanceStarted)
        if event.cause == "revocation_follow_up"
    ]
    assert bool(follow_ups) == history.groups[group].client.is_cooperative
    assert all(event.follows == event.generation for event in follow_ups)


def test_leaving_and_death_are_told_apart(history: KafkaHistory, group: str) -> None:
    names = {event.member: event.client_id for event in history.of(group, MemberJoined)}
    gone = {names[event.member]: event for event in history.of(group, MemberGone)[:2]}
    assert (gone["bert"].how, gone["anna"].how) == ("left", "session_expired")
    assert gone["anna"].silent_ms == gone["anna"].session_timeout_ms == SESSION_MS
    before = history.groups[group].seen["farewell"][1]
    assert sorted(gone["anna"].owned.get(TOPIC, ())) == sorted(before["anna"])


def test_static_member_returns_without_a_rebalance(history: KafkaHistory, group: str) -> None:
    (replaced,) = history.of(group, MemberReplaced)
    assert replaced.instance == "carl"
    assert replaced.member != replaced.former_member
    at_ms = history.groups[group].seen["death"][0]
    until_ms = history.groups[group].seen["return"][0]
    within = [line for line in history.lines if at_ms < line.ts <= until_ms]
    assert not [
        line
        for line in within
        if line.event.group == group and isinstance(line.event, RebalanceStarted)
    ]


def test_commits_have_their_offsets(history: KafkaHistory, group: str) -> None:
    _, seen = history.groups[group].seen["commit"]
    wanted = {str(number): 7 for number in seen["carl"]}
    assert {TOPIC: wanted} in [event.offsets for event in history.of(group, OffsetsCommitted)]


def test_group_can_be_replayed(history: KafkaHistory, group: str) -> None:
    recording = read_recording(history.lines, group)
    assert recording.topics == {TOPIC: len(PARTITIONS)}
    assert {member.session_ms for member in recording.members} == {SESSION_MS}


def test_every_line_of_this_kafka_is_understood(history: KafkaHistory, group: str) -> None:
    assert history.imported.not_understood == ()
    assert history.imported.unknown_reasons == {}
    assert history.imported.dump.unreadable == {}
    assert history.imported.groups == len(history.groups), group


def test_journal_has_no_gaps_and_no_repetitions(history: KafkaHistory, group: str) -> None:
    audit = Audit()
    for path in journal_files(history.out):
        with path.open(encoding="utf-8", newline="\n") as texts:
            for entry in read_lines(texts):
                audit.note(entry)
    assert audit.report().is_whole, group
