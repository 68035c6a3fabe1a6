"""A group on any coordinator, Coterie's or Kafka's, with members of any library.

The coordinator is asked for nothing: the members tell whether the group has settled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, Self

from coterie_client import Admin
from coterie_client.admin import GroupDescription
from tests.live.member import Client, MemberProcess
from tests.live.ownership import Ownership, TaskRun
from tests.live.programs.lines import Options
from tests.live.worker import COTERIE, Worker

__all__ = ["Backend", "PortableGroup", "Snapshot"]

#: It only bounds a failure: ten processes may have to start on a busy machine.
_SETTLE_S: Final = 60.0
_POLL_S: Final = 0.1
_CALM_S: Final = 1.0
#: As long as a coordinator may take to come back, and more.
_SESSION_MS: Final = 60_000
_REBALANCE_MS: Final = 60_000


class Backend(Protocol):
    """A coordinator of a test's own."""

    @property
    def address(self) -> str:
        """Its address."""
        ...

    def crash(self) -> None:
        """Kill it, and start it again with the same data."""
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A group that has settled."""

    at_s: float
    #: Of our members; None if there are none.
    generation: int | None
    #: The member that works on each partition.
    holders: dict[int, str]
    #: The tasks of our members.
    runs: dict[int, TaskRun]

    def of(self, *names: str) -> set[int]:
        """The partitions of these members."""
        return {partition for partition, name in self.holders.items() if name in names}

    def sizes(self) -> list[int]:
        """How many partitions the members have, in order."""
        names = list(self.holders.values())
        return sorted(names.count(name) for name in set(names))


class PortableGroup:
    """Starts members of a group; as a context manager, it kills them at the end.

    Its topic has the name of the group.
    """

    def __init__(self, address: str, group: str, folder: Path, partitions: int) -> None:
        """Start none yet."""
        self.address = address
        self.group = group
        self.partitions = frozenset(range(partitions))
        self.members: list[MemberProcess] = []
        self._folder = folder

    def start(self, client: Client, name: str, **options: Any) -> MemberProcess:
        """Start a member; more options are those of `Options`."""
        kind = Worker if client.name.startswith(COTERIE.name) else MemberProcess
        given = {
            "bootstrap": self.address,
            "group": self.group,
            "topic": self.group,
            "assignor": client.assignor,
            "session_ms": _SESSION_MS,
            "rebalance_ms": _REBALANCE_MS,
        }
        member = kind(client, Options(client=name, **{**given, **options}), self._folder)
        self.members.append(member)
        return member

    def work(self, name: str, **options: Any) -> Worker:
        """Start a member of ours."""
        worker = self.start(COTERIE, name, **options)
        assert isinstance(worker, Worker)
        return worker

    # -- waiting -------------------------------------------------------------------------------

    def settle(self, *members: MemberProcess) -> Snapshot:
        """Wait until these share all partitions, each at work on some."""
        names = ", ".join(member.name for member in members)
        self.wait_for(lambda: self._is_settled(*members), f"{names} share all partitions")
        workers = _workers(members)
        return Snapshot(
            at_s=time.monotonic(),
            generation=workers[0].state["generation"] if workers else None,
            holders={partition: member.name for member in members for partition in member.owned},
            runs={partition: run for each in workers for partition, run in each.running.items()},
        )

    def calm(self, *members: MemberProcess) -> Snapshot:
        """As `settle`, and then wait until nothing moves any more.

        kafka-python's leader may join again a moment after it has led, when it has looked at the
        topics once more.
        """
        deadline = time.monotonic() + _SETTLE_S
        snapshot = self.settle(*members)
        while time.monotonic() < deadline:
            time.sleep(_CALM_S)
            later = self.settle(*members)
            if (later.generation, later.holders) == (snapshot.generation, snapshot.holders):
                return later
            snapshot = later
        raise AssertionError(f"{self.group} did not calm down\n{self._told()}")

    def wait_for(self, true: Callable[[], object], what: str) -> None:
        """Wait until a condition holds; a failure shows the members' output."""
        deadline = time.monotonic() + _SETTLE_S
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {_SETTLE_S:g} s: {what}\n{self._told()}")
            time.sleep(_POLL_S)

    def _is_settled(self, *members: MemberProcess) -> bool:
        for member in members:
            assert member.is_running, f"{member.name} has ended\n{member.told()}"
        shares = [member.owned for member in members]
        if not all(shares) or sorted(chain(*shares)) != sorted(self.partitions):
            return False
        states = [worker.state for worker in _workers(members)]
        if len({state["generation"] for state in states}) > 1:
            return False
        return all(state["is_settled"] for state in states)

    def _told(self) -> str:
        return "\n".join(member.told() for member in self.members)

    # -- looking -------------------------------------------------------------------------------

    @property
    def workers(self) -> list[Worker]:
        """Our members so far."""
        return _workers(self.members)

    @property
    def runs(self) -> list[TaskRun]:
        """All tasks of our members so far."""
        return [run for worker in self.workers for run in worker.runs]

    def ownerships(self) -> list[Ownership]:
        """The ownerships of all members so far."""
        return [ownership for member in self.members for ownership in member.ownerships()]

    def acked_since(self, at_s: float) -> set[int]:
        """The partitions of which a commit was acknowledged since then."""
        return {run.partition for run in self.runs if run.acks and run.acks[-1][0] > at_s}

    def create_topic(self) -> None:
        """Make the topic."""

        async def create() -> None:
            async with Admin(self.address) as admin:
                await admin.topics.create(self.group, partitions=len(self.partitions))

        asyncio.run(create())

    def committed(self) -> dict[int, int]:
        """The committed offsets, as the coordinator has them."""

        async def fetch() -> dict[int, int]:
            async with Admin(self.address) as admin:
                found = await admin.offsets.fetch(self.group)
            return {number: committed.offset for (_, number), committed in found.items()}

        return asyncio.run(fetch())

    def describe(self) -> GroupDescription:
        """The group, as the coordinator has it."""

        async def describe() -> GroupDescription:
            async with Admin(self.address) as admin:
                return await admin.groups.describe(self.group)

        return asyncio.run(describe())

    # -- its life ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.create_topic()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.die()


def _workers(members: Iterable[MemberProcess]) -> list[Worker]:
    return [member for member in members if isinstance(member, Worker)]
