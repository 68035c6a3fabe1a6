"""From a journal to what can be played again: who came and went, and who was silent when.

A journal says what the coordinator saw, and not why.  This is read into it:

- A member that was dropped because it was silent, and whose process joins again soon after, was
  silent all the time between: it was paused, or busy, or cut off.  If it does not come back, it
  was dead from when it was last heard of.
- A member that did not join in time though it lived, or left because its work took too long, was
  busy until it came back.
- A member that nobody saw joining was there when the journal begins.
- A coordinator that did not say that it stops was away for a few seconds at most.
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
from coterie_testing.replay.completing import SESSION_MS, complete
from coterie_testing.replay.play import Life, Play, Silence, Stall, Subscription

__all__ = ["play_of"]

#: A process that comes back so soon after it was dropped is taken for the same one.
_SAME_PROCESS_MS: Final = 600_000

#: How long a coordinator that crashed is away at most, as far as is known.
_CRASH_MS: Final = 5_000

#: A first phase that is so short was not waited for.
_AT_ONCE_MS: Final = 100
#: How long Kafka waits for more members of an empty group, where nothing else is said.
_DELAY_MS: Final = Settings().group_initial_rebalance_delay_ms

_SILENT: Final = frozenset({"session_expired", "join_expired"})
_SLOW: Final = frozenset({"rebalance_expired", "sync_expired"})
#: Read into `member_gone`: it left as its work took too long; and into `group_recovered`: it had
#: joined and was in no generation yet.
_STALLED: Final = "stalled"
_FORGOTTEN: Final = "forgotten"

#: What Kafka's consumer gives as its reason when its work takes longer than it may.
_POLL_TIMEOUT: Final = "poll timeout"
#: What Coterie's client gives as its reason when it has never been a member before.
_FIRST_JOIN: Final = "first join"

#: Coordinators make member ids of the client's id and something random.
_RANDOM_ID: Final = re.compile(r"-([0-9a-f]{8}(-[0-9a-f]{4}){3}-)?[0-9a-f]{12}$")

_GROUP_SETTINGS: Final = {
    each.key: each.attribute for each in SETTINGS if each.key.startswith("group.")
}


def play_of(lines: Iterable[Line], group: str) -> Play:
    """Read a group's history out of the lines of a journal, which come in their order.

    What the journal does not tell is assumed, and the play says so; `ValueError` if there is
    nothing to be played.
    """
    reading = _Reading(group)
    for line in lines:
        reading.read(line)
    return reading.finish()


class _Reading:
    """Reads line by line; there is a method for each kind of event that matters."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._first_ms: int | None = None
        self._last_ms = 0
        #: The node that has the group.
        self._node = ""
        self._lives: list[Life] = []
        self._by_member: dict[str, Life] = {}
        #: Who was dropped and may come back: when, since when, and how.
        self._dropped: dict[Life, tuple[int, int, str]] = {}
        #: The topics that each of them wants, as far as was told.
        self._wanted: dict[Life, frozenset[str]] = {}
        self._topics: dict[str, int] = {}
        self._changes: list[tuple[int, str, int]] = []
        self._absences: list[Silence] = []
        self._stopped_ms: dict[str, int] = {}
        self._settings: dict[str, Any] = {}
        self._rebalance = RebalanceStarted(
            generation=0, from_state="", cause="", detail="", awaited=(), deadline=None
        )
        self._rebalance_ms = 0
        #: How long first phases of an empty group took: the coordinator waits for more members.
        self._first_phases_ms: list[int] = []
        self._protocols: Counter[str] = Counter()

    def read(self, line: Line) -> None:
        """Take note of an event."""
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
                self._given(event.assigned)
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
            # A node that did not say that it stops was there at its last line at least.
            crashed_ms = max(self._last_ms, ts_ms - _CRASH_MS)
            stopped_ms = max(self._stopped_ms.get(self._node, 0), self._last_ms)
            since_ms = stopped_ms if stopped_ms > self._last_ms else crashed_ms
            if since_ms < ts_ms:
                self._absences.append(Silence(since_ms, ts_ms))
        for member in [name for name in self._by_member if name not in event.members]:
            self._dropped[self._by_member.pop(member)] = (ts_ms, ts_ms, _FORGOTTEN)
        for member in event.members:
            self._known(member)
        self._given(event.assigned)

    def _given(self, assigned: Mapping[str, Partitions] | None) -> None:
        changed = {topic for _, topic, _ in self._changes}
        for member, partitions in (assigned or {}).items():
            self._known(member)
            for topic, numbers in partitions.items():
                if topic not in changed and numbers:
                    known = self._topics.get(topic, 0)
                    self._topics[topic] = max(known, *(number + 1 for number in numbers))

    # -- members -------------------------------------------------------------------------------

    def _known(self, member: str, instance: str | None = None, host: str = "") -> Life:
        """A member; if nobody saw it joining, it was there when the journal begins."""
        life = self._by_member.get(member)
        if life is None:
            life = Life(
                client_id=_RANDOM_ID.sub("", member),
                host=host,
                instance=instance,
                topics=frozenset(),
                session_ms=0,
                rebalance_ms=0,
                assignors=(),
                began_ms=self._first_ms or 0,
            )
            self._add(member, life)
        return life

    def _add(self, member: str, life: Life) -> None:
        self._lives.append(life)
        self._by_member[member] = life

    def _phase_joined(self, event: PhaseJoined) -> None:
        self._protocols[event.protocol] += 1
        if self._rebalance.from_state == "Empty":
            self._first_phases_ms.append(event.took_ms)
        for phase in event.members:
            life = self._known(phase.member, phase.instance, phase.host)
            life.instance, life.host = life.instance or phase.instance, life.host or phase.host
            waited_ms = phase.joined_after_ms
            if waited_ms is not None and phase.member in self._rebalance.awaited:
                life.joins_ms.append(waited_ms)
            if phase.topics is not None:
                self._wants(life, phase, frozenset(phase.topics))

    def _wants(self, life: Life, phase: MemberPhase, topics: frozenset[str]) -> None:
        wanted = self._wanted.get(life, life.topics)
        self._wanted[life] = topics
        if not wanted:
            life.topics = topics
        elif topics != wanted:
            when_ms = self._rebalance_ms + (phase.joined_after_ms or 0)
            life.subscriptions.append(Subscription(when_ms, topics))

    def _joined(self, ts_ms: int, event: MemberJoined) -> None:
        former = self._former(ts_ms, event)
        if former is not None:
            self._by_member[event.member] = former
            self._came_back(former, ts_ms)
            return
        life = Life(
            client_id=event.client_id or _RANDOM_ID.sub("", event.member),
            host=event.host,
            instance=event.instance,
            topics=frozenset(event.topics or ()),
            session_ms=event.session_timeout_ms or 0,
            rebalance_ms=event.rebalance_timeout_ms or 0,
            assignors=tuple(event.protocols or ()),
            began_ms=ts_ms,
        )
        self._add(event.member, life)

    def _came_back(self, life: Life, ts_ms: int) -> None:
        dropped_ms, since_ms, how = self._dropped.pop(life)
        if how in _SLOW or how == _STALLED:
            life.stalls.append(Stall(since_ms, ts_ms, leaves=how == _STALLED))
        elif how in _SILENT:
            life.silences.append(Silence(min(since_ms, dropped_ms), ts_ms))

    def _former(self, ts_ms: int, event: MemberJoined) -> Life | None:
        """The process that was dropped a while ago and is back now."""
        if event.reason == _FIRST_JOIN:
            return None
        for life, (dropped_ms, _, _) in self._dropped.items():
            same = (life.client_id, life.host, life.instance)
            is_same = same == (event.client_id, event.host, event.instance)
            if is_same and ts_ms - dropped_ms <= _SAME_PROCESS_MS:
                return life
        return None

    def _replaced(self, ts_ms: int, event: MemberReplaced) -> None:
        former = self._known(event.former_member, event.instance, event.former_host)
        del self._by_member[event.former_member]
        former.ended_ms, former.left = ts_ms - event.silent_ms, False
        heir = Life(
            client_id=former.client_id,
            host=event.host,
            instance=event.instance,
            topics=self._wanted.get(former, former.topics),
            session_ms=former.session_ms,
            rebalance_ms=former.rebalance_ms,
            assignors=former.assignors,
            began_ms=ts_ms,
        )
        self._add(event.member, heir)

    def _gone(self, ts_ms: int, event: MemberGone) -> None:
        life = self._known(event.member, event.instance, event.host)
        del self._by_member[event.member]
        life.session_ms = life.session_ms or event.session_timeout_ms or 0
        if event.how in _SILENT:
            # While its join was parked, it counted as alive without being heard of.
            session_ms = life.session_ms or SESSION_MS
            silent_ms = min(event.silent_ms or session_ms, session_ms)
            self._dropped[life] = (ts_ms, ts_ms - silent_ms, event.how)
        elif event.how in _SLOW:
            self._dropped[life] = (ts_ms, ts_ms - life.rebalance_ms, event.how)
        elif _POLL_TIMEOUT in (event.reason or ""):
            self._dropped[life] = (ts_ms, ts_ms - life.rebalance_ms, _STALLED)
        else:
            life.ended_ms, life.left = ts_ms, True

    # -- the end -------------------------------------------------------------------------------

    def _initial_delay(self) -> dict[str, Any]:
        """How long an empty group waits for more members, as far as its first phases show it."""
        if not self._first_phases_ms:
            return {}
        least_ms = min(self._first_phases_ms)
        if least_ms < _AT_ONCE_MS:
            delay_ms = 0
        else:
            # Each arrival prolongs it by once more the delay, which nearly everybody leaves alone.
            is_usual = min(least_ms % _DELAY_MS, -least_ms % _DELAY_MS) < _AT_ONCE_MS
            delay_ms = _DELAY_MS if is_usual else least_ms
        return {"group_initial_rebalance_delay_ms": delay_ms}

    def finish(self) -> Play:
        """All of it."""
        for life, (dropped_ms, since_ms, how) in self._dropped.items():
            life.left = how == _STALLED
            life.ended_ms = dropped_ms if life.left else max(since_ms, life.began_ms)
        began_ms = self._first_ms or 0
        for ts_ms, topic, partitions in self._changes:
            if ts_ms <= began_ms:
                self._topics[topic] = partitions
        play = Play(
            group=self._group,
            began_ms=began_ms,
            ended_ms=self._last_ms,
            lives=self._lives,
            topics={topic: count for topic, count in self._topics.items() if count},
            topic_changes=[each for each in self._changes if each[0] > began_ms],
            absences=self._absences,
            settings=self._initial_delay() | self._settings,
        )
        return complete(play, self._protocols)
