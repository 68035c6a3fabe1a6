"""All tasks of `Group.run`: work on what is owned, and restores of what is kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from coterie_client.membership.events import Event
from coterie_client.partition_owner import PartitionOwner
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.restores import Restore, RestoreSupervisor
from coterie_client.work.supervisor import SupervisorOptions, TaskSupervisor, Work

__all__ = ["Hooks", "Tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the tasks of a group call."""

    #: Work has failed for good: the group is to end.
    failed: Callable[[], None]
    #: There is a bug in the client.
    crash: Callable[[Exception], None]
    emit: Callable[[Event], None]
    random: Callable[[], float]


class Tasks:
    """Runs the tasks of a group, as its owner of partitions says."""

    def __init__(
        self,
        owner: PartitionOwner,
        work: Work,
        restore: Restore | None,
        options: SupervisorOptions,
        hooks: Hooks,
    ) -> None:
        self._work = TaskSupervisor(
            work,
            options,
            released=owner.released,
            give_up=owner.give_up,
            failed=hooks.failed,
            crash=hooks.crash,
            emit=hooks.emit,
            random=hooks.random,
        )
        self._restores: RestoreSupervisor | None = None
        if restore is not None:
            self._restores = self._work.restores = RestoreSupervisor(
                restore,
                beside=self._work,
                failed=hooks.failed,
                crash=hooks.crash,
                emit=hooks.emit,
                random=hooks.random,
            )
            owner.attach_standbys(self._restores)
        owner.attach(self._work)

    @property
    def running(self) -> list[asyncio.Task[object]]:
        """All tasks that have not ended."""
        restores = self._restores.tasks.values() if self._restores is not None else ()
        return [*self._work.tasks.values(), *restores]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that they are for."""
        restores = self._restores.tasks if self._restores is not None else {}
        return tuple(sorted(self._work.tasks.keys() | restores.keys()))

    @property
    def failure(self) -> BaseException | None:
        """The error that ends the whole group."""
        failure = self._restores.failure if self._restores is not None else None
        return self._work.failure or failure
