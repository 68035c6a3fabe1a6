"""Workers that can't know yet that they were removed, and until when."""

from __future__ import annotations

from collections import defaultdict

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    MemberAway,
    MemberGone,
    MemberReplaced,
)
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler

__all__ = ["Exemptions"]

#: The part of its session for which a member works on without an answer from the coordinator.
_LEASE = 0.9


class Exemptions:
    """Knows whose work may overlap with that of a successor: only fencing tokens tell them apart.

    There are three reasons, and each holds for as short a time as possible:

    - A paused process can't know that time passes. At the moment at which it resumes, it does what
      was due; by the end of that moment it knows. If it was dropped meanwhile because it did not
      join a rebalance, it may work until the lease ends that it had before.
    - A member that an administrator removed learns so from its next heartbeat. If no heartbeat
      gets through, its lease ends nine tenths of a session after the removal at the latest.
    - The same holds for a member whose instance id another process took over.

    The journal says when a membership ended. A coordinator that was killed may have stored that
    without telling it; then `group_recovered` tells, by not naming the member. That exempts only
    members that were to be removed, or whose instance id another process has.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: When each worker was resumed, and until when each may work whose membership has ended.
        self._resumed_s: dict[Worker, float] = {}
        self._ended_until_s: dict[Worker, float] = {}
        #: The workers that are paused, and since when.
        self._paused: dict[Worker, float] = {}
        self._by_member_id: dict[str, Worker] = {}
        #: The members that an administrator asked to remove.
        self._to_remove: set[str] = set()
        #: By instance id, all processes that were started with it.
        self._processes: defaultdict[str, set[Worker]] = defaultdict(set)

    def covers(self, worker: Worker) -> bool:
        """Whether a worker can't know at this moment that it has a successor."""
        is_resuming = self._scheduler.now_s == self._resumed_s.get(worker)
        return worker in self._paused or is_resuming or self.is_unaware(worker)

    def is_unaware(self, worker: Worker) -> bool:
        """Whether a worker's membership has ended without its knowing, paused or not.

        One that was only paused may do what was due, but begins nothing: its lease has ended.
        """
        return self._scheduler.now_s <= self._ended_until_s.get(worker, -1.0)

    def is_contested(self, worker: Worker) -> bool:
        """Whether another process has the worker's instance id, so that one of them is fenced."""
        instance = worker.options.instance
        return instance is not None and len(self._processes[instance]) > 1

    def worker(self, member_id: str) -> Worker | None:
        """The worker with a member id, if its client has told it."""
        return self._by_member_id.get(member_id)

    # -- what happens to workers ---------------------------------------------------------------

    def started(self, worker: Worker) -> None:
        """A worker's process starts."""
        if worker.options.instance is not None:
            self._processes[worker.options.instance].add(worker)

    def joined(self, worker: Worker, member_id: str) -> None:
        """A worker learns its member id."""
        self._by_member_id[member_id] = worker

    def paused(self, worker: Worker) -> None:
        """A worker's process is paused."""
        self._paused[worker] = self._scheduler.now_s

    def resumed(self, worker: Worker) -> None:
        """A worker's process resumes, and does at once what was due."""
        self._paused.pop(worker, None)
        self._resumed_s[worker] = self._scheduler.now_s

    def removal_asked(self, member_id: str) -> None:
        """An administrator asks for a member to be removed."""
        self._to_remove.add(member_id)

    # -- what the journal says -----------------------------------------------------------------

    def journalled(self, event: Event) -> None:
        """Learn which memberships have ended, and not by the member itself."""
        match event:
            case MemberReplaced(former_member=member_id):
                self._ended(member_id)
            case MemberAway(member=member_id):
                self._dropped(member_id)
            case MemberGone(member=member_id):
                if member_id in self._to_remove and event.how in ("left", "removed"):
                    self._ended(member_id)
                else:
                    self._dropped(member_id)
            case GroupRecovered():
                for member_id in self._by_member_id.keys() - set(event.members):
                    if self._may_have_ended(event.group, member_id):
                        self._ended(member_id)
                    elif self._by_member_id[member_id].group_id == event.group:
                        self._dropped(member_id)

    def _dropped(self, member_id: str) -> None:
        """Exempt a paused member that the group does not wait for any longer."""
        worker = self._by_member_id.get(member_id)
        if worker in self._paused:
            self._exempt(worker, self._paused[worker])

    def _may_have_ended(self, group: str, member_id: str) -> bool:
        worker = self._by_member_id[member_id]
        return worker.group_id == group and (
            member_id in self._to_remove or self.is_contested(worker)
        )

    def _ended(self, member_id: str) -> None:
        """Exempt a worker whose membership has just ended, once: later lines do not prolong it."""
        worker = self._by_member_id.pop(member_id, None)
        if worker is not None:
            self._exempt(worker, self._scheduler.now_s)

    def _exempt(self, worker: Worker, since_s: float) -> None:
        """Exempt a worker until its lease must have ended, which was last renewed by `since_s`."""
        until_s = since_s + worker.options.session_timeout * _LEASE
        self._ended_until_s[worker] = max(self._ended_until_s.get(worker, 0.0), until_s)
