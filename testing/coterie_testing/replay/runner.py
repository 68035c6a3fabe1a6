"""Runs a recording again, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from coterie_client.admin import Admin
from coterie_protocol.exceptions import CoterieError
from coterie_server.config.settings import Settings
from coterie_testing.replay.assumptions import HEARTBEAT_MS
from coterie_testing.replay.changes import Changes
from coterie_testing.replay.cost import Cost, cost_of
from coterie_testing.replay.member import ReplayContext, ReplayedMember
from coterie_testing.replay.recording import Recording
from coterie_testing.replay.work_meter import WorkMeter
from coterie_testing.sim.coordinator import ADDRESS, SimulatedCoordinator
from coterie_testing.virtual import Disk, Network, Process, Scheduler

__all__ = ["STEPS_MAX", "TooLongError", "replay"]

#: This many steps take about a minute.
STEPS_MAX: Final = 2_000_000

#: How many steps a heartbeat takes at least, from the member's timer to the answer.
_STEPS_PER_HEARTBEAT: Final = 8

#: How long the coordinator is up before the first member joins.
_HEAD_START_S: Final = 1.0
#: How long the replay goes on after the last event and a session timeout.
_TAIL_S: Final = 10.0
#: After a session timeout and this long, an event has no more consequences.
_QUIET_MS: Final = 60_000


class TooLongError(Exception):
    """A replay takes more steps than it may."""

    def __init__(self, steps_max: int) -> None:
        super().__init__(f"a replay takes more than {steps_max:,} steps")


def _heartbeats(recording: Recording, changes: Changes) -> float:
    """About how many heartbeats all members send."""
    usual_ms = changes.heartbeat_interval_ms or recording.heartbeat_ms or HEARTBEAT_MS
    return sum(
        ((recording.ended_ms if member.ended_ms is None else member.ended_ms) - member.began_ms)
        / usual_ms
        for member in recording.members
    )


def replay(
    recording: Recording,
    changes: Changes | None = None,
    *,
    seed: int = 0,
    steps_max: int = STEPS_MAX,
) -> Cost:
    """Run a recording again, with some settings changed; the same seed gives the same cost.

    Quiet times are cut short. Raises `TooLongError` if it takes too many steps all the same.
    """
    changes = changes or Changes()
    sessions_ms = [changes.session_timeout_ms or member.session_ms for member in recording.members]
    session_ms = max(sessions_ms, default=0)
    settings = {**recording.settings, **changes.coordinator}
    waits_ms = sum(
        settings.get(name, 0)
        for name in ("group_initial_rebalance_delay_ms", "group_static_expansion_timeout_ms")
    )
    recording = recording.condensed(2 * session_ms + waits_ms + _QUIET_MS)
    if _heartbeats(recording, changes) * _STEPS_PER_HEARTBEAT > steps_max:
        raise TooLongError(steps_max)
    replayed = _Replay(recording, changes, seed)
    try:
        return replayed.run(steps_max, session_ms / 1000 + _TAIL_S)
    finally:
        replayed.scheduler.close()


class _Replay:
    """The coordinator and the members of one replay."""

    def __init__(self, recording: Recording, changes: Changes, seed: int) -> None:
        self._recording = recording
        self.scheduler = Scheduler(seed)
        network = Network(self.scheduler)
        self._meter = WorkMeter(self.scheduler)
        values = {**recording.settings, **changes.coordinator}
        # Members may ask for any session timeout: theirs are what is being tried.
        values |= {"group_min_session_timeout_ms": 1, "group_max_session_timeout_ms": 86_400_000}
        self._coordinator = SimulatedCoordinator(
            self.scheduler,
            network,
            Settings(**values),
            dict(recording.topics),
            Disk(self.scheduler),
        )
        self._dial = network.dialler
        self._admin: Process | None = None
        context = ReplayContext(
            self.scheduler, network, self._meter, self._at, recording, changes, self._coordinator
        )
        self._members = [
            ReplayedMember(context, number) for number in range(len(recording.members))
        ]
        if any(member.stalls for member in recording.members):
            self._coordinator.gate = context.hold_back

    def run(self, steps_max: int, tail_s: float) -> Cost:
        """Run it to the end."""
        recording = self._recording
        self._coordinator.start()
        for member in self._members:
            member.prepare()
        for outage in recording.outages:
            self._at(outage.from_ms, self._coordinator.kill)
            self._at(outage.until_ms, self._coordinator.start)
        for at_ms, topic, partitions in recording.topic_changes:
            self._at(at_ms, partial(self._change_topic, topic, partitions))
        until_s = self._when_s(recording.ended_ms) + tail_s
        while self.scheduler.step(until_s):
            if self.scheduler.steps > steps_max:
                raise TooLongError(steps_max)
        self.scheduler.run(until_s - self.scheduler.now_s)
        return self._cost()

    def _cost(self) -> Cost:
        return replace(
            cost_of(self._coordinator.journal, self._recording.group),
            stopped_s=self._meter.stopped_s,
            overlap_s=self._meter.overlap_s,
            steps=self.scheduler.steps,
        )

    def _when_s(self, at_ms: float) -> float:
        return (at_ms - self._recording.began_ms) / 1000 + _HEAD_START_S

    def _at(self, at_ms: float, what: Callable[[], object]) -> None:
        self.scheduler.after(max(0.0, self._when_s(at_ms) - self.scheduler.now_s), what)

    # -- topics --------------------------------------------------------------------------------

    def _change_topic(self, topic: str, partitions: int) -> None:
        if self._admin is None:
            self._admin = Process(self.scheduler, "admin")
        dial = self._dial(self._admin)
        self._meter.forget(topic, partitions)

        async def change() -> None:
            async with Admin(str(ADDRESS), dial=dial, random=self.scheduler.random.random) as admin:
                try:
                    if partitions == 0:
                        await admin.topics.delete(topic)
                    elif any(each.name == topic for each in await admin.topics.list()):
                        await admin.topics.grow(topic, partitions)
                    else:
                        await admin.topics.create(topic, partitions=partitions)
                except CoterieError:
                    return  # it is in that state already, or can't be

        self._admin.create_task(change())
