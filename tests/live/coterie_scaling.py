"""A group of Coterie's members that grows, crashes and shrinks, on any coordinator.

One group goes through it once: one member, `most` of them, one of them killed, the coordinator
killed and started again, three members, none. Each test looks at a part of that. A test module
takes the tests over by import, and provides the fixture `backend`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.live.ownership import TaskRun, overlaps, resumed_wrongly, tokens_not_growing
from tests.live.portable_group import Backend, PortableGroup, Snapshot
from tests.live.worker import Worker

__all__ = [
    "MOST",
    "ScalingRun",
    "most",
    "scaling",
    "test_commits_of_all_partitions_go_on_after_a_crash",
    "test_death_of_a_member_stops_no_other_task",
    "test_last_acknowledged_commits_are_stored",
    "test_members_that_are_stopped_end_without_an_error",
    "test_no_partition_has_two_tasks_at_a_time",
    "test_scaling_in_stops_only_tasks_of_those_who_leave",
    "test_scaling_out_stops_only_tasks_that_move",
    "test_shares_are_even",
    "test_tasks_resume_at_acknowledged_offsets",
    "test_tokens_only_grow",
]

PARTITIONS: Final = 40
ALL: Final = frozenset(range(PARTITIONS))
#: The first of them is alone for a while.
STAYING: Final = ("first", "second", "third")
LEAVING: Final = tuple(f"leaving-{number}" for number in range(1, 7))
#: How many members there are at the most; each is a process.
MOST: Final = len(STAYING) + len(LEAVING) + 1
VICTIM: Final = "victim"
#: The victim is declared dead soon after its death, and only it can be thought dead by mistake.
_VICTIM_SESSION_MS: Final = 8_000


@dataclass(slots=True)
class ScalingRun:
    """Everything that happened in the group."""

    #: All tasks of all members.
    runs: list[TaskRun]
    snapshots: dict[str, Snapshot]
    #: When the coordinator was back.
    back_s: float
    #: The committed offsets at the end.
    committed: dict[int, int]
    #: How the members ended that were not killed.
    endings: list[tuple[str | None, str] | None]
    #: Those that left before the last three.
    leavers: tuple[str, ...]

    def ended_between(self, before: str, after: str) -> list[TaskRun]:
        """The tasks that ended between two snapshots."""
        from_s, to_s = self.snapshots[before].at_s, self.snapshots[after].at_s
        return [run for run in self.runs if from_s < run.ended_s <= to_s]


@dataclass(slots=True)
class _Scaling:
    """Takes a group through all phases."""

    backend: Backend
    portable_group: PortableGroup
    leavers: tuple[str, ...]
    workers: dict[str, Worker] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    back_s: float = 0.0

    def run(self) -> ScalingRun:
        """Run all phases."""
        self._start(*STAYING[:1])
        self._settle("alone")
        self._start(*STAYING[1:], *self.leavers)
        self._start(VICTIM, session_ms=_VICTIM_SESSION_MS)
        self._settle("all")
        self.workers.pop(VICTIM).die()
        self._settle("all but the victim")
        self._crash()
        self._settle("after the crash")
        stopped = self._stop(*self.leavers)
        self._settle("three")
        stopped += self._stop(*STAYING)
        return ScalingRun(
            runs=self.portable_group.runs,
            snapshots=self.snapshots,
            back_s=self.back_s,
            committed=self.portable_group.committed(),
            endings=[worker.ending for worker in stopped],
            leavers=self.leavers,
        )

    def _start(self, *names: str, **options: int) -> None:
        self.workers |= {name: self.portable_group.work(name, **options) for name in names}

    def _stop(self, *names: str) -> list[Worker]:
        leavers = [self.workers.pop(name) for name in names]
        for worker in leavers:
            worker.stop()
        for worker in leavers:
            worker.wait()
        return leavers

    def _settle(self, phase: str) -> None:
        self.snapshots[phase] = self.portable_group.settle(*self.workers.values())

    def _crash(self) -> None:
        self.backend.crash()
        self.back_s = back_s = time.monotonic()
        self.portable_group.wait_for(
            lambda: self.portable_group.acked_since(back_s) == ALL, "commits after the crash"
        )


@pytest.fixture(scope="module")
def most() -> int:
    """How many members there are at the most; a test module may want fewer."""
    return MOST


@pytest.fixture(scope="module")
def scaling(
    backend: Backend, most: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScalingRun]:
    """Take a group through all phases."""
    folder = tmp_path_factory.mktemp("life")
    with PortableGroup(backend.address, "life", folder, PARTITIONS) as portable_group:
        yield _Scaling(backend, portable_group, LEAVING[: most - MOST or None]).run()


def test_no_partition_has_two_tasks_at_a_time(scaling: ScalingRun) -> None:
    assert {run.partition for run in scaling.runs} == ALL
    assert overlaps(run.ownership for run in scaling.runs) == []


def test_tokens_only_grow(scaling: ScalingRun) -> None:
    assert tokens_not_growing(scaling.runs) == []


def test_tasks_resume_at_acknowledged_offsets(scaling: ScalingRun) -> None:
    assert resumed_wrongly(scaling.runs) == []


def test_last_acknowledged_commits_are_stored(scaling: ScalingRun) -> None:
    acked = {
        partition: max(run.acked or 0 for run in scaling.runs if run.partition == partition)
        for partition in ALL
    }
    assert scaling.committed == acked


def test_shares_are_even(scaling: ScalingRun, most: int) -> None:
    counts = {"alone": 1, "all": most, "all but the victim": most - 1, "three": 3}
    for phase, count in counts.items():
        sizes = scaling.snapshots[phase].sizes()
        assert len(sizes) == count
        assert sizes[-1] - sizes[0] <= 1


def test_scaling_out_stops_only_tasks_that_move(scaling: ScalingRun, most: int) -> None:
    before, after = scaling.snapshots["alone"], scaling.snapshots["all"]
    kept = after.of("first")
    assert len(kept) == PARTITIONS // most
    assert [after.runs[each] for each in kept] == [before.runs[each] for each in kept]


def test_death_of_a_member_stops_no_other_task(scaling: ScalingRun) -> None:
    before, after = scaling.snapshots["all"], scaling.snapshots["all but the victim"]
    orphaned = before.of(VICTIM)
    assert [
        run for run in scaling.ended_between("all", "all but the victim") if run.member != VICTIM
    ] == []
    assert after.runs.keys() == ALL
    assert all(after.runs[each].began_s > before.at_s for each in orphaned)


def test_commits_of_all_partitions_go_on_after_a_crash(scaling: ScalingRun) -> None:
    acked = {run.partition for run in scaling.runs for at_s, _ in run.acks if at_s > scaling.back_s}
    assert acked == ALL


def test_scaling_in_stops_only_tasks_of_those_who_leave(scaling: ScalingRun) -> None:
    ended = scaling.ended_between("after the crash", "three")
    assert {run.member for run in ended} == set(scaling.leavers)


def test_members_that_are_stopped_end_without_an_error(scaling: ScalingRun) -> None:
    assert scaling.endings == [(None, "")] * (len(STAYING) + len(scaling.leavers))
