"""Playing a history again, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, Final

from coterie_client.admin import Admin
from coterie_protocol.exceptions import CoterieError
from coterie_server.config.settings import Settings
from coterie_testing.replay.book import WorkBook
from coterie_testing.replay.changes import Changes
from coterie_testing.replay.completing import HEARTBEAT_MS
from coterie_testing.replay.outcome import Outcome
from coterie_testing.replay.play import Play
from coterie_testing.replay.role import Role, Setting
from coterie_testing.replay.told import told_of
from coterie_testing.sim.coordinator import ADDRESS, SimulatedCoordinator
from coterie_testing.virtual import Disk, Network, Process, Scheduler

__all__ = ["STEPS_MAX", "TooLongError", "replay"]

#: So many steps take about a minute.
STEPS_MAX: Final = 2_000_000

#: A heartbeat takes so many steps at least, from the member's timer to the answer.
_STEPS_PER_HEARTBEAT: Final = 8

#: A coordinator is there before the first member comes.
_HEAD_START_S: Final = 1.0
#: What comes of the last thing that happened has this long to happen, once sessions are over.
_TAIL_S: Final = 10.0
#: After a session timeout and this long, nothing comes any more of what happened.
_QUIET_MS: Final = 60_000


class TooLongError(Exception):
    """A replay takes more steps than it may."""

    def __init__(self, steps_max: int) -> None:
        super().__init__(f"a replay takes more than {steps_max:,} steps")


def _heartbeats(play: Play, changes: Changes) -> float:
    """How many heartbeats all processes send, about."""
    usual_ms = changes.heartbeat_interval_ms or play.heartbeat_ms or HEARTBEAT_MS
    return sum(
        ((play.ended_ms if life.ended_ms is None else life.ended_ms) - life.began_ms) / usual_ms
        for life in play.lives
    )


def replay(
    play: Play, changes: Changes | None = None, *, seed: int = 0, steps_max: int = STEPS_MAX
) -> Outcome:
    """Play a history again, with some settings changed; the same seed gives the same outcome.

    Times in which nothing happens are cut short.  `TooLongError` if it takes too many steps all
    the same.
    """
    changes = changes or Changes()
    sessions_ms = [changes.session_timeout_ms or life.session_ms for life in play.lives]
    patience_ms = max(sessions_ms, default=0)
    setting = {**play.settings, **changes.coordinator}
    waits_ms = sum(
        setting.get(name, 0)
        for name in ("group_initial_rebalance_delay_ms", "group_static_expansion_timeout_ms")
    )
    play = play.condensed(2 * patience_ms + waits_ms + _QUIET_MS)
    if _heartbeats(play, changes) * _STEPS_PER_HEARTBEAT > steps_max:
        raise TooLongError(steps_max)
    stage = _Stage(play, changes, seed)
    try:
        return stage.run(steps_max, patience_ms / 1000 + _TAIL_S)
    finally:
        stage.scheduler.close()


class _Stage:
    """The world in which a history is played."""

    def __init__(self, play: Play, changes: Changes, seed: int) -> None:
        self._play = play
        self.scheduler = Scheduler(seed)
        network = Network(self.scheduler)
        self._book = WorkBook(self.scheduler)
        values = {**play.settings, **changes.coordinator}
        # Members are allowed whatever sessions they ask for: theirs are what is being tried.
        values |= {"group_min_session_timeout_ms": 1, "group_max_session_timeout_ms": 86_400_000}
        self._coordinator = SimulatedCoordinator(
            self.scheduler, network, Settings(**values), dict(play.topics), Disk(self.scheduler)
        )
        self._dial = network.dialler
        self._admin: Process | None = None
        setting = Setting(
            self.scheduler, network, self._book, self._at, play, changes, self._coordinator
        )
        self._roles = [Role(setting, number) for number in range(len(play.lives))]
        if any(life.stalls for life in play.lives):
            self._coordinator.gate = setting.keep_back

    def run(self, steps_max: int, tail_s: float) -> Outcome:
        """Play it to its end."""
        play = self._play
        self._coordinator.start()
        for role in self._roles:
            role.prepare()
        for absence in play.absences:
            self._at(absence.from_ms, self._coordinator.kill)
            self._at(absence.until_ms, self._coordinator.start)
        for at_ms, topic, partitions in play.topic_changes:
            self._at(at_ms, partial(self._change_topic, topic, partitions))
        until_s = self._when_s(play.ended_ms) + tail_s
        while self.scheduler.step(until_s):
            if self.scheduler.steps > steps_max:
                raise TooLongError(steps_max)
        self.scheduler.run(until_s - self.scheduler.now_s)
        return self._outcome()

    def _outcome(self) -> Outcome:
        lines = [line for line in self._coordinator.journal if line.event.group == self._play.group]
        told = told_of(lines, self._play.group)
        values: dict[str, Any] = {each.name: getattr(told, each.name) for each in fields(told)}
        values["stopped_s"] = self._book.stopped_s
        return Outcome(
            **values, overlap_s=self._book.overlap_s, steps=self.scheduler.steps, lines=lines
        )

    def _when_s(self, at_ms: float) -> float:
        return (at_ms - self._play.began_ms) / 1000 + _HEAD_START_S

    def _at(self, at_ms: float, what: Callable[[], object]) -> None:
        self.scheduler.after(max(0.0, self._when_s(at_ms) - self.scheduler.now_s), what)

    # -- topics --------------------------------------------------------------------------------

    def _change_topic(self, topic: str, partitions: int) -> None:
        if self._admin is None:
            self._admin = Process(self.scheduler, "admin")
        dial = self._dial(self._admin)
        self._book.forget(topic, partitions)

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
                    return  # it is as it was to be, or can't be

        self._admin.create_task(change())
