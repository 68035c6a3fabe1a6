"""Playing a history again, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from coterie_client.admin import Admin
from coterie_client.assignors import Assignor, CooperativeStickyAssignor
from coterie_protocol.exceptions import CoterieError
from coterie_server.settings import Settings
from coterie_testing.replay.changes import ASSIGNORS, Changes
from coterie_testing.replay.outcome import Outcome, WorkBook, outcome_of
from coterie_testing.replay.play import Life, Play, Silence
from coterie_testing.sim.coordinator import ADDRESS, Coordinator
from coterie_testing.sim.worker import Worker, WorkerOptions
from coterie_testing.virtual import Disk, Network, Process, World

__all__ = ["replay"]

#: A coordinator is there before the first member comes.
_HEAD_START_S: Final = 1.0

_HEARTBEAT_MS: Final = 3_000
#: Work that is looked at only for whether it goes on.
_PACE_S: Final = (30.0, 60.0)


def replay(play: Play, changes: Changes | None = None, *, seed: int = 0) -> Outcome:
    """Play a history again, with some settings changed; the same seed gives the same outcome."""
    stage = _Stage(play, changes or Changes(), seed)
    try:
        return stage.run()
    finally:
        stage.world.end()


class _Stage:
    """The world in which a history is played."""

    def __init__(self, play: Play, changes: Changes, seed: int) -> None:
        self._play = play
        self._changes = changes
        self.world = World(seed)
        self._network = Network(self.world)
        self._book = WorkBook(self.world)
        values: dict[str, Any] = dict(changes.coordinator)
        # Members are allowed whatever sessions they ask for: theirs are what is being tried.
        values.setdefault("group_min_session_timeout_ms", 1)
        values.setdefault("group_max_session_timeout_ms", 86_400_000)
        self._coordinator = Coordinator(
            self.world, self._network, Settings(**values), dict(play.topics), Disk(self.world)
        )
        self._admin: Process | None = None
        self._workers: list[Worker] = []

    def run(self) -> Outcome:
        """Play it to its end."""
        play = self._play
        self._coordinator.start()
        for number, life in enumerate(play.lives):
            self._at(life.began_ms, partial(self._enter, life, number))
        for absence in play.absences:
            self._at(absence.from_ms, self._coordinator.kill)
            self._at(absence.until_ms, self._coordinator.start)
        for at_ms, topic, partitions in play.topic_changes:
            self._at(at_ms, partial(self._change_topic, topic, partitions))
        self.world.run(self._when_s(play.ended_ms) + _HEAD_START_S)
        told = outcome_of(self._coordinator.journal, play.group)
        return replace(
            told, stopped_s=self._book.stopped_s(), takeovers_s=tuple(self._book.takeovers_s)
        )

    def _when_s(self, at_ms: int) -> float:
        return (at_ms - self._play.began_ms) / 1000 + _HEAD_START_S

    def _at(self, at_ms: int, what: Callable[[], object]) -> None:
        self.world.after(max(0.0, self._when_s(at_ms) - self.world.now_s), what)

    # -- members -------------------------------------------------------------------------------

    def _enter(self, life: Life, number: int) -> None:
        """A process joins, and what is known to befall it will."""
        worker = Worker(
            self.world,
            self._network,
            self._book,
            f"{life.client_id or 'member'}/{number}",
            self._play.group,
            self._options(life),
            (self._assignor(life),),
        )
        self._workers.append(worker)
        worker.start()
        for silence in life.silences:
            self._befall(worker, silence)
        for at_ms, took_ms in life.slow:
            self._at(at_ms, partial(self._slow_down, worker, took_ms))
        if life.ended_ms is not None:
            self._at(life.ended_ms, worker.stop if life.left else worker.kill)

    def _options(self, life: Life) -> WorkerOptions:
        changes = self._changes
        session_ms = changes.session_timeout_ms or life.session_ms
        heartbeat_ms = changes.heartbeat_interval_ms or min(_HEARTBEAT_MS, session_ms // 3)
        rebalance_ms = changes.rebalance_timeout_ms or life.rebalance_ms
        # Whoever heard of the rebalance by a heartbeat spent half an interval on that.
        finish_s = max(0, life.finish_ms - heartbeat_ms // 2) / 1000
        return WorkerOptions(
            topics=tuple(sorted(life.topics)),
            instance=self._instance(life),
            session_timeout=session_ms / 1000,
            heartbeat_interval=heartbeat_ms / 1000,
            rebalance_timeout=rebalance_ms / 1000,
            request_timeout=max(1.0, session_ms / 2000),
            work_s=_PACE_S,
            finish_s=(finish_s / 2, finish_s),
        )

    def _instance(self, life: Life) -> str | None:
        if self._changes.static is None:
            return life.instance
        # The host is what stays when a process of a well-run service comes back.
        name = life.instance or f"{life.client_id}@{life.host.lstrip('/')}"
        return name if self._changes.static else None

    def _assignor(self, life: Life) -> Assignor:
        name = self._changes.assignor or life.assignor
        return ASSIGNORS.get(name, CooperativeStickyAssignor)()

    def _befall(self, worker: Worker, silence: Silence) -> None:
        self._at(silence.from_ms, worker.process.pause)
        self._at(silence.until_ms, worker.process.resume)

    @staticmethod
    def _slow_down(worker: Worker, took_ms: int) -> None:
        worker.options = replace(worker.options, finish_s=(took_ms / 1000, took_ms / 1000))

    # -- topics --------------------------------------------------------------------------------

    def _change_topic(self, topic: str, partitions: int) -> None:
        if self._admin is None:
            self._admin = Process(self.world, "admin")
        dial = self._network.dialler(self._admin)

        async def change() -> None:
            async with Admin(str(ADDRESS), dial=dial, random=self.world.random.random) as admin:
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
