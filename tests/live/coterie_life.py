"""What a group of our members lives through, on any coordinator.

One group lives through it once: alone, ten members, one of them killed, the coordinator killed and
started again, three members, none. Each test looks at a part of that. A test module takes the tests
over by import, and provides the fixture `backend`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.live.judge import Run, overlaps, resumed_wrongly, tokens_not_growing
from tests.live.team import Backend, Snapshot, Team
from tests.live.worker import Worker

__all__ = [
    "Life",
    "life",
    "test_commits_go_on_after_a_crash",
    "test_death_stops_nobody_else",
    "test_last_commits_are_stored",
    "test_members_end_in_good_order",
    "test_no_partition_has_two_tasks_at_a_time",
    "test_scaling_in_stops_only_what_moves",
    "test_scaling_out_stops_only_what_moves",
    "test_shares_are_even",
    "test_tokens_only_grow",
    "test_work_goes_on_where_it_was",
]

PARTITIONS: Final = 100
ALL: Final = frozenset(range(PARTITIONS))
#: The first of them is alone for a while.
STAYING: Final = ("first", "second", "third")
LEAVING: Final = tuple(f"leaving-{number}" for number in range(1, 7))
VICTIM: Final = "victim"
#: The victim is declared dead soon after its death, and only it can be thought dead by mistake.
_VICTIM_SESSION_MS: Final = 8_000


@dataclass(slots=True)
class Life:
    """What a group has lived through, in the end."""

    #: All tasks of all members.
    runs: list[Run]
    snapshots: dict[str, Snapshot]
    #: When the coordinator was back.
    back_s: float
    #: What the coordinator has in the end.
    committed: dict[int, int]
    #: How the members ended that were not killed.
    endings: list[tuple[str | None, str] | None]

    def ended_between(self, before: str, after: str) -> list[Run]:
        """The tasks that ended between two snapshots."""
        from_s, to_s = self.snapshots[before].at_s, self.snapshots[after].at_s
        return [run for run in self.runs if from_s < run.ended_s <= to_s]


@dataclass(slots=True)
class _Course:
    """The course that a life takes."""

    backend: Backend
    team: Team
    workers: dict[str, Worker] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    back_s: float = 0.0

    def take(self) -> Life:
        """Live through it all."""
        self._start(*STAYING[:1])
        self._settle("alone")
        self._start(*STAYING[1:], *LEAVING)
        self._start(VICTIM, session_ms=_VICTIM_SESSION_MS)
        self._settle("ten")
        self.workers.pop(VICTIM).die()
        self._settle("nine")
        self._crash()
        self._settle("after the crash")
        leavers = self._stop(*LEAVING)
        self._settle("three")
        leavers += self._stop(*STAYING)
        return Life(
            runs=self.team.runs,
            snapshots=self.snapshots,
            back_s=self.back_s,
            committed=self.team.committed(),
            endings=[worker.ending for worker in leavers],
        )

    def _start(self, *names: str, **options: int) -> None:
        self.workers |= {name: self.team.work(name, **options) for name in names}

    def _stop(self, *names: str) -> list[Worker]:
        leavers = [self.workers.pop(name) for name in names]
        for worker in leavers:
            worker.stop()
        for worker in leavers:
            worker.wait()
        return leavers

    def _settle(self, chapter: str) -> None:
        self.snapshots[chapter] = self.team.settle(*self.workers.values())

    def _crash(self) -> None:
        self.backend.crash()
        self.back_s = back_s = time.monotonic()
        self.team.wait_for(lambda: self.team.acked_since(back_s) == ALL, "commits after the crash")


@pytest.fixture(scope="module")
def life(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Let a group live through it."""
    folder = tmp_path_factory.mktemp("life")
    with Team(backend.address, "life", folder, PARTITIONS) as team:
        yield _Course(backend, team).take()


def test_no_partition_has_two_tasks_at_a_time(life: Life) -> None:
    """In all its life, no task began on a partition before the former one had ended."""
    assert {run.partition for run in life.runs} == ALL
    assert overlaps(run.stint for run in life.runs) == []


def test_tokens_only_grow(life: Life) -> None:
    """Each task has a higher fencing token than the one before on its partition."""
    assert tokens_not_growing(life.runs) == []


def test_work_goes_on_where_it_was(life: Life) -> None:
    """No task went on below what was acknowledged before, or above what was ever sent."""
    assert resumed_wrongly(life.runs) == []


def test_last_commits_are_stored(life: Life) -> None:
    """In the end, when all have left in good order, what is stored was acknowledged last."""
    acked = {
        partition: max(run.acked or 0 for run in life.runs if run.partition == partition)
        for partition in ALL
    }
    assert life.committed == acked


@pytest.mark.parametrize(
    ("chapter", "sizes"),
    [("alone", [100]), ("ten", [10] * 10), ("nine", [11] * 8 + [12]), ("three", [33, 33, 34])],
)
def test_shares_are_even(life: Life, chapter: str, sizes: list[int]) -> None:
    """No member has two partitions more than another."""
    assert life.snapshots[chapter].sizes() == sizes


def test_scaling_out_stops_only_what_moves(life: Life) -> None:
    """What the first member still has when there are ten was never stopped in between."""
    before, after = life.snapshots["alone"], life.snapshots["ten"]
    kept = after.of("first")
    assert len(kept) == 10
    assert [after.runs[each] for each in kept] == [before.runs[each] for each in kept]


def test_death_stops_nobody_else(life: Life) -> None:
    """When a member was killed, others took its partitions over, and no task was stopped."""
    before, after = life.snapshots["ten"], life.snapshots["nine"]
    orphaned = before.of(VICTIM)
    assert [run for run in life.ended_between("ten", "nine") if run.member != VICTIM] == []
    assert after.runs.keys() == ALL
    assert all(after.runs[each].began_s > before.at_s for each in orphaned)


def test_commits_go_on_after_a_crash(life: Life) -> None:
    """When the coordinator was killed and came back, commits of all partitions passed again."""
    acked = {run.partition for run in life.runs for at_s, _ in run.acks if at_s > life.back_s}
    assert acked == ALL


def test_scaling_in_stops_only_what_moves(life: Life) -> None:
    """When six of nine left, none of the tasks of those who stayed was stopped."""
    ended = life.ended_between("after the crash", "three")
    assert {run.member for run in ended} == set(LEAVING)


def test_members_end_in_good_order(life: Life) -> None:
    """All who were asked to stop did so, without an error."""
    assert life.endings == [(None, "")] * (len(STAYING) + len(LEAVING))
