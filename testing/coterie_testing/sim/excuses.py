"""Who can't know that it is out, and until when: nothing else excuses a worker."""

from __future__ import annotations

from collections import defaultdict

from coterie_protocol.journal import Event, GroupRecovered, MemberGone, MemberReplaced
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler

__all__ = ["Excuses"]

#: The part of a session that a member goes on for without an answer from the coordinator.
_LEASE = 0.9


class Excuses:
    """Workers whose work may overlap that of their successors, told apart by tokens alone.

    There are three reasons, and each holds only as long as it must:

    - A process that is paused can't know that time passes.  At the moment in which it goes on, it
      does what was due; by the end of that moment it knows.  If it was dropped meanwhile for not
      joining a rebalance, and its lease from before is not over, it hears so within that.
    - A member that an administrator removed hears of it with its next heartbeat.  If none comes
      through, its lease ends: at most nine tenths of a session after the removal.
    - The same holds for a member whose name another process took over.

    The journal says when a membership ended.  A coordinator that was killed may have stored that
    and not told it; then `group_recovered` does, by not naming the member.  It excuses nobody for
    whom there was neither a removal nor another process of its name.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._world = scheduler
        #: Until when those may go on who were paused, and those whose membership has ended.
        self._resumed_s: dict[Worker, float] = {}
        self._ended_until_s: dict[Worker, float] = {}
        #: Who is paused, and since when.
        self._paused: dict[Worker, float] = {}
        self._by_member_id: dict[str, Worker] = {}
        #: The members that an administrator asked to remove.
        self._unwanted: set[str] = set()
        self._bearers: defaultdict[str, set[Worker]] = defaultdict(set)

    def cover(self, worker: Worker) -> bool:
        """Whether a worker can't know better at this moment."""
        is_waking = self._world.now_s == self._resumed_s.get(worker)
        return worker in self._paused or is_waking or self.is_unaware(worker)

    def is_unaware(self, worker: Worker) -> bool:
        """Whether a worker's membership has ended without its knowing, paused or not.

        Who was only paused may still do what was due, but begins nothing: its lease has run out.
        """
        return self._world.now_s <= self._ended_until_s.get(worker, -1.0)

    def is_contested(self, worker: Worker) -> bool:
        """Whether another process was started under a worker's name, so that one is fenced."""
        instance = worker.options.instance
        return instance is not None and len(self._bearers[instance]) > 1

    def worker(self, member_id: str) -> Worker | None:
        """Whose member id that is, if its client has told."""
        return self._by_member_id.get(member_id)

    # -- what is done to them ------------------------------------------------------------------

    def started(self, worker: Worker) -> None:
        """A process begins to take part."""
        if worker.options.instance is not None:
            self._bearers[worker.options.instance].add(worker)

    def joined(self, worker: Worker, member_id: str) -> None:
        """A worker is told its member id."""
        self._by_member_id[member_id] = worker

    def paused(self, worker: Worker) -> None:
        """A process stands still."""
        self._paused[worker] = self._world.now_s

    def went_on(self, worker: Worker) -> None:
        """A process that stood still goes on, and does at once what was due."""
        self._paused.pop(worker, None)
        self._resumed_s[worker] = self._world.now_s

    def removal_asked(self, member_id: str) -> None:
        """An administrator wants a member out."""
        self._unwanted.add(member_id)

    # -- what the coordinator tells ------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Learn whose membership has ended without its doing."""
        match event:
            case MemberReplaced(former_member=member_id):
                self._ended(member_id)
            case MemberGone(member=member_id):
                if member_id in self._unwanted and event.how in ("left", "removed"):
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
        """A member was not waited for any longer: who is paused can't know that, either."""
        worker = self._by_member_id.get(member_id)
        if worker in self._paused:
            self._excuse(worker, self._paused[worker])

    def _may_have_ended(self, group: str, member_id: str) -> bool:
        worker = self._by_member_id[member_id]
        return worker.group_id == group and (
            member_id in self._unwanted or self.is_contested(worker)
        )

    def _ended(self, member_id: str) -> None:
        """A membership has ended by now; who knows of no other member id may work until its lease.

        It is told once: what is said of it later makes the excuse no longer.
        """
        worker = self._by_member_id.pop(member_id, None)
        if worker is not None:
            self._excuse(worker, self._world.now_s)

    def _excuse(self, worker: Worker, since_s: float) -> None:
        """Let it go on until its lease must be over, which was renewed by then at the latest."""
        until_s = since_s + worker.options.session_timeout * _LEASE
        self._ended_until_s[worker] = max(self._ended_until_s.get(worker, 0.0), until_s)
