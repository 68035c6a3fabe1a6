"""Reads a recording out of a journal: when members came, went, and were silent or busy.

A journal says what the coordinator saw, and not why. These are the conclusions:

- A member that was dropped as silent, and whose process joins again soon after, was silent all the
  time between: paused, busy, or cut off. If it does not come back, it was dead from when it was
  last heard of.
- A member that did not join in time although it was alive, or left because its work took too long,
  was busy until it came back.
- A member whose joining is not in the journal was there when the journal begins.
- A coordinator that did not say that it stops was down for a few seconds at most.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    Line,
    MemberGone,
    MemberJoined,
    MemberPhase,
    MemberReplaced,
    NodeStarted,
    NodeStopped,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
)
from coterie_server.config.settings import SETTINGS, Settings
from coterie_testing.replay.assumptions import SESSION_MS, fill_in
from coterie_testing.replay.recording import (
    RecordedMember,
    Recording,
    Silence,
    Stall,
    SubscriptionChange,
)

__all__ = ["read_recording"]

#: A process that comes back within this time after it was dropped is taken for the same one.
_SAME_PROCESS_MS: Final = 600_000

#: How long a coordinator that crashed is taken to be down at most.
_CRASH_MS: Final = 5_000

#: A first rebalance that is shorter than this had no delay.
_AT_ONCE_MS: Final = 100
#: The initial delay by default.
_DELAY_MS: Final = Settings().group_initial_rebalance_delay_ms

_SILENT: Final = frozenset({"session_expired", "registration_expired", "join_expired"})
_SLOW: Final = frozenset({"rebalance_expired", "sync_expired"})
#: Ways to go that the journal only implies: a member left because its work took too long, and a
#: crash of the coordinator forgot a member that was in no generation yet.
_STALLED: Final = "stalled"
_FORGOTTEN: Final = "forgotten"

#: The reason that Kafka's consumer gives for leaving when its work takes too long.
_POLL_TIMEOUT: Final = "poll timeout"
#: The reason that Coterie's client gives when it joins for the first time.
_FIRST_JOIN: Final = "first join"

#: Coordinators make member ids of the client id and something random.
_RANDOM_ID: Final = re.compile(r"-([0-9a-f]{8}(-[0-9a-f]{4}){3}-)?[0-9a-f]{12}$")

_GROUP_SETTINGS: Final = {
    each.key: each.attribute for each in SETTINGS if each.key.startswith("group.")
}


def read_recording(lines: Iterable[Line], group: str) -> Recording:
    """Read a group's recording out of the lines of a journal, which come in order.

    What the journal does not tell is assumed, and listed in the recording. Raises `ValueError` if
    no member was ever there.
    """
    reader = _Reader(group)
    for line in lines:
        reader.read(line)
    return reader.finish()


class _Reader:
    """Reads line by line; there is a method for each kind of event that matters."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._first_ms: int | None = None
        self._last_ms = 0
        #: The node that owns the group.
        self._node = ""
        self._members: list[RecordedMember] = []
        self._by_id: dict[str, RecordedMember] = {}
        #: Members that were dropped and may come back: when, last heard of when, and how.
        self._dropped: dict[RecordedMember, tuple[int, int, str]] = {}
        #: The topics that each member subscribes to, as far as they are known.
        self._wanted: dict[RecordedMember, frozenset[str]] = {}
        self._topics: dict[str, int] = {}
        self._changes: list[tuple[int, str, int]] = []
        self._outages: list[Silence] = []
        self._stopped_ms: dict[str, int] = {}
        self._settings: dict[str, Any] = {}
        self._rebalance = RebalanceStarted(
            generation=0, from_state="", cause="", detail="", awaited=(), deadline=None
        )
        self._rebalance_ms = 0
        #: How long rebalances of an empty group waited for more members.
        self._initial_delays_ms: list[int] = []
        self._protocols: Counter[str] = Counter()

    def read(self, line: Line) -> None:
        """Take in a line."""
        ts_ms, event = line.ts, line.event
        if event.group not in ("", self._group):
            return
        if event.group == "":
            self._read_node(line)
            return
        self._first_ms = ts_ms if self._first_ms is None else self._first_ms
        self._read_group(ts_ms, event)
        self._last_ms = max(self._last_ms, ts_ms)
        self._node = line.node

    def _read_group(self, ts_ms: int, event: Event) -> None:
        match event:
            case MemberJoined():
                self._joined(ts_ms, event)
            case MemberReplaced():
                self._replaced(ts_ms, event)
            case MemberGone():
                self._gone(ts_ms, event)
            case RebalanceStarted():
                self._rebalance, self._rebalance_ms = event, ts_ms
            case PhaseJoined():
                self._phase_joined(event)
            case RebalanceCompleted():
                self._assigned(event.assigned)
            case GroupRecovered():
                self._recovered(ts_ms, event)

    # -- the node and its topics ---------------------------------------------------------------

    def _read_node(self, line: Line) -> None:
        match line.event:
            case TopicChanged() as change:
                self._changes.append((line.ts, change.topic, change.partitions))
                self._topics.setdefault(change.topic, change.partitions_before)
            case NodeStopped():
                self._stopped_ms[line.node] = line.ts
            case NodeStarted(settings=settings):
                known = {
                    _GROUP_SETTINGS[key]: value
                    for key, value in settings.items()
                    if key in _GROUP_SETTINGS
                }
                self._settings |= known

    def _recovered(self, ts_ms: int, event: GroupRecovered) -> None:
        if self._node:
            # A node that did not say that it stops was up at its last line at least.
            crashed_ms = max(self._last_ms, ts_ms - _CRASH_MS)
            stopped_ms = max(self._stopped_ms.get(self._node, 0), self._last_ms)
            since_ms = stopped_ms if stopped_ms > self._last_ms else crashed_ms
            if since_ms < ts_ms:
                self._outages.append(Silence(since_ms, ts_ms))
        for member_id in [name for name in self._by_id if name not in event.members]:
            self._dropped[self._by_id.pop(member_id)] = (ts_ms, ts_ms, _FORGOTTEN)
        for member_id in event.members:
            self._member(member_id)
        self._assigned(event.assigned)

    def _assigned(self, assigned: Mapping[str, Partitions] | None) -> None:
        changed = {topic for _, topic, _ in self._changes}
        for member_id, partitions in (assigned or {}).items():
            self._member(member_id)
            for topic, numbers in partitions.items():
                if topic not in changed and numbers:
                    known = self._topics.get(topic, 0)
                    self._topics[topic] = max(known, *(number + 1 for number in numbers))

    # -- members -------------------------------------------------------------------------------

    def _member(
        self, member_id: str, instance: str | None = None, host: str = ""
    ) -> RecordedMember:
        """A member by its id; one that is new here was there when the journal begins."""
        member = self._by_id.get(member_id)
        if member is None:
            member = RecordedMember(
                client_id=_RANDOM_ID.sub("", member_id),
                host=host,
                instance=instance,
                topics=frozenset(),
                session_ms=0,
                rebalance_ms=0,
                assignors=(),
                began_ms=self._first_ms or 0,
            )
            self._add(member_id, member)
        return member

    def _add(self, member_id: str, member: RecordedMember) -> None:
        self._members.append(member)
        self._by_id[member_id] = member

    def _phase_joined(self, event: PhaseJoined) -> None:
        self._protocols[event.protocol] += 1
        if self._rebalance.from_state == "Empty":
            self._initial_delays_ms.append(event.took_ms)
        for phase in event.members:
            member = self._member(phase.member, phase.instance, phase.host)
            member.instance, member.host = (
                member.instance or phase.instance,
                member.host or phase.host,
            )
            waited_ms = phase.joined_after_ms
            if waited_ms is not None and phase.member in self._rebalance.awaited:
                member.joins_ms.append(waited_ms)
            if phase.topics is not None:
                self._subscribed(member, phase, frozenset(phase.topics))

    def _subscribed(
        self, member: RecordedMember, phase: MemberPhase, topics: frozenset[str]
    ) -> None:
        wanted = self._wanted.get(member, member.topics)
        self._wanted[member] = topics
        if not wanted:
            member.topics = topics
        elif topics != wanted:
            when_ms = self._rebalance_ms + (phase.joined_after_ms or 0)
            member.subscriptions.append(SubscriptionChange(when_ms, topics))

    def _joined(self, ts_ms: int, event: MemberJoined) -> None:
        former = self._returning(ts_ms, event)
        if former is not None:
            self._by_id[event.member] = former
            self._came_back(former, ts_ms)
            return
        member = RecordedMember(
            client_id=event.client_id or _RANDOM_ID.sub("", event.member),
            host=event.host,
            instance=event.instance,
            topics=frozenset(event.topics or ()),
            session_ms=event.session_timeout_ms or 0,
            rebalance_ms=event.rebalance_timeout_ms or 0,
            assignors=tuple(event.protocols or ()),
            began_ms=ts_ms,
        )
        self._add(event.member, member)

    def _came_back(self, member: RecordedMember, ts_ms: int) -> None:
        dropped_ms, since_ms, how = self._dropped.pop(member)
        if how in _SLOW or how == _STALLED:
            member.stalls.append(Stall(since_ms, ts_ms, leaves=how == _STALLED))
        elif how in _SILENT:
            member.silences.append(Silence(min(since_ms, dropped_ms), ts_ms))

    def _returning(self, ts_ms: int, event: MemberJoined) -> RecordedMember | None:
        """The member that was dropped a while ago and is back now."""
        if event.reason == _FIRST_JOIN:
            return None
        for member, (dropped_ms, _, _) in self._dropped.items():
            same = (member.client_id, member.host, member.instance)
            is_same = same == (event.client_id, event.host, event.instance)
            if is_same and ts_ms - dropped_ms <= _SAME_PROCESS_MS:
                return member
        return None

    def _replaced(self, ts_ms: int, event: MemberReplaced) -> None:
        former = self._member(event.former_member, event.instance, event.former_host)
        del self._by_id[event.former_member]
        former.ended_ms, former.left = ts_ms - event.silent_ms, False
        successor = RecordedMember(
            client_id=former.client_id,
            host=event.host,
            instance=event.instance,
            topics=self._wanted.get(former, former.topics),
            session_ms=former.session_ms,
            rebalance_ms=former.rebalance_ms,
            assignors=former.assignors,
            began_ms=ts_ms,
        )
        self._add(event.member, successor)

    def _gone(self, ts_ms: int, event: MemberGone) -> None:
        member = self._member(event.member, event.instance, event.host)
        del self._by_id[event.member]
        member.session_ms = member.session_ms or event.session_timeout_ms or 0
        if event.how in _SILENT:
            # While its join was parked, it counted as alive without a sign of member.
            session_ms = member.session_ms or SESSION_MS
            silent_ms = min(event.silent_ms or session_ms, session_ms)
            self._dropped[member] = (ts_ms, ts_ms - silent_ms, event.how)
        elif event.how in _SLOW:
            self._dropped[member] = (ts_ms, ts_ms - member.rebalance_ms, event.how)
        elif _POLL_TIMEOUT in (event.reason or ""):
            self._dropped[member] = (ts_ms, ts_ms - member.rebalance_ms, _STALLED)
        else:
            member.ended_ms, member.left = ts_ms, True

    # -- the end -------------------------------------------------------------------------------

    def _initial_delay(self) -> dict[str, Any]:
        """How long an empty group waits for more members, as far as its rebalances show it."""
        if not self._initial_delays_ms:
            return {}
        least_ms = min(self._initial_delays_ms)
        if least_ms < _AT_ONCE_MS:
            delay_ms = 0
        else:
            # Each arrival prolongs it by the delay, and nearly all leave the default.
            is_usual = min(least_ms % _DELAY_MS, -least_ms % _DELAY_MS) < _AT_ONCE_MS
            delay_ms = _DELAY_MS if is_usual else least_ms
        return {"group_initial_rebalance_delay_ms": delay_ms}

    def finish(self) -> Recording:
        """The recording of all lines."""
        for member, (dropped_ms, since_ms, how) in self._dropped.items():
            member.left = how == _STALLED
            member.ended_ms = dropped_ms if member.left else max(since_ms, member.began_ms)
        began_ms = self._first_ms or 0
        for ts_ms, topic, partitions in self._changes:
            if ts_ms <= began_ms:
                self._topics[topic] = partitions
        recording = Recording(
            group=self._group,
            began_ms=began_ms,
            ended_ms=self._last_ms,
            members=self._members,
            topics={topic: count for topic, count in self._topics.items() if count},
            topic_changes=[each for each in self._changes if each[0] > began_ms],
            outages=self._outages,
            settings=self._initial_delay() | self._settings,
        )
        return fill_in(recording, self._protocols)
