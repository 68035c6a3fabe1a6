"""Fills in what a journal does not tell, from the rest of it or with defaults."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from coterie_testing.replay.changes import ASSIGNORS
from coterie_testing.replay.recording import RecordedMember, Recording

__all__ = ["HEARTBEAT_MS", "SESSION_MS", "fill_in"]

#: The defaults of Kafka's consumers.
SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 300_000
_ASSIGNOR: Final = "cooperative-sticky"

#: The name of a topic in place of unknown ones.
_TOPIC: Final = "assumed"

#: How many joins are needed to tell the heartbeat interval from them.
_JOINS_MIN: Final = 8
_HEARTBEAT_MIN_MS: Final = 100
#: The default, which nearly all members have.
HEARTBEAT_MS: Final = 3_000
#: By what factor an interval has to differ from the default to be taken for another one.
_PLAINLY: Final = 1.6


def fill_in(recording: Recording, protocols: Counter[str]) -> Recording:
    """Fill in what is missing, with what the group does elsewhere or else with defaults.

    `protocols` counts how often the group chose which. Raises `ValueError` without any members.
    """
    if not recording.members:
        raise ValueError("no member joined the group in this time")
    assumptions = [
        *_complete_timeouts(recording.members),
        *_complete_assignors(recording.members, protocols),
        *_complete_topics(recording),
    ]
    return replace(
        recording, heartbeat_ms=_heartbeat_ms(recording.members), assumptions=tuple(assumptions)
    )


def _complete_timeouts(members: list[RecordedMember]) -> Iterable[str]:
    session_ms = _usual(member.session_ms for member in members)
    if session_ms is None:
        yield f"session timeouts of {SESSION_MS} ms"
    rebalance_ms = _usual(member.rebalance_ms for member in members)
    if rebalance_ms is None:
        yield f"rebalance timeouts of {_REBALANCE_MS} ms"
    for member in members:
        member.session_ms = member.session_ms or session_ms or SESSION_MS
        member.rebalance_ms = member.rebalance_ms or rebalance_ms or _REBALANCE_MS


def _usual(values: Iterable[int]) -> int | None:
    known = Counter(value for value in values if value)
    return known.most_common(1)[0][0] if known else None


def _complete_assignors(members: list[RecordedMember], protocols: Counter[str]) -> Iterable[str]:
    """Keep the assignors that are known; without any, take what the group chose most often."""
    for member in members:
        member.assignors = tuple(name for name in member.assignors if name in ASSIGNORS)
    if all(member.assignors for member in members):
        return
    chosen = [name for name, _ in protocols.most_common() if name in ASSIGNORS]
    if not chosen:
        told = f" in place of {protocols.most_common(1)[0][0]}" if protocols else ""
        yield f"the assignor {_ASSIGNOR}{told}"
    for member in members:
        member.assignors = (chosen or [_ASSIGNOR])[0], *member.assignors


def _complete_topics(recording: Recording) -> Iterable[str]:
    known = recording.topics.keys() | {topic for _, topic, _ in recording.topic_changes}
    for member in recording.members:
        member.topics = member.topics or frozenset(known)
    wanted = {topic for member in recording.members for topic in member.topics}
    wanted |= {
        topic
        for member in recording.members
        for each in member.subscriptions
        for topic in each.topics
    }
    if wanted & known:
        return
    # Rebalances are the same for any partitions, as long as there is one for each member.
    count = len({member.host or member.client_id for member in recording.members})
    recording.topics.update(dict.fromkeys(wanted or {_TOPIC}, count))
    for member in recording.members:
        member.topics = member.topics or frozenset(recording.topics)
    yield f"{count} partitions for each topic"


def _heartbeat_ms(members: list[RecordedMember]) -> int | None:
    """The heartbeat interval, which the spread of joins shows.

    Members hear of a rebalance from their next heartbeat, so their joins are spread evenly over the
    interval, however long they then take to finish their work.
    """
    joins_ms = [join_ms for member in members for join_ms in member.joins_ms]
    if len(joins_ms) < _JOINS_MIN:
        return None
    cuts = statistics.quantiles(joins_ms, n=10, method="inclusive")
    most_ms = min(member.session_ms for member in members) // 3
    seen_ms = max(_HEARTBEAT_MIN_MS, min(most_ms, round((cuts[-1] - cuts[0]) / 0.8)))
    usual_ms = min(HEARTBEAT_MS, most_ms)
    # It is a guess, and nearly all leave the default.
    is_usual = usual_ms / _PLAINLY < seen_ms < usual_ms * _PLAINLY
    return usual_ms if is_usual else seen_ms
