"""The invariant checker: everything that must hold, work from outside of the system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from coterie_client import Partition, Standby
from coterie_client.membership.events import CoordinatorLost, GroupJoined
from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.journal import (
    Event,
    MemberAway,
    MemberGone,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_testing.sim.invariants.clock import ClockChecker
from coterie_testing.sim.invariants.exemptions import Exemptions
from coterie_testing.sim.invariants.journal import JournalChecker
from coterie_testing.sim.invariants.offsets import OffsetChecker
from coterie_testing.sim.invariants.operations import OperationChecker
from coterie_testing.sim.invariants.requests import RequestChecker
from coterie_testing.sim.invariants.standbys import StandbyChecker
from coterie_testing.sim.worker import Worker, WorkObserver
from coterie_testing.virtual import Scheduler

__all__ = ["InvariantChecker", "Violation"]

TopicPartition = tuple[str, int]

#: How members are dropped that are silent or late.
_EXPIRIES = frozenset(
    {
        *("session_expired", "registration_expired"),
        *("join_expired", "rebalance_expired", "sync_expired"),
    }
)


class Violation(AssertionError):  # noqa: N818  # what was looked for
    """An invariant does not hold."""


@dataclass(slots=True)
class _Work:
    """The work on one partition."""

    #: The workers at work, with their tokens.
    running: dict[Worker, int] = field(default_factory=dict)
    #: The highest token that work began with, and the worker that had it.
    token: int = -1
    owner: Worker | None = None


@dataclass(slots=True)
class NodeChecks:
    """What is checked of each coordinator by itself."""

    clock: ClockChecker
    requests: RequestChecker


class InvariantChecker(WorkObserver):
    """Is told what workers do and what the journal says, and keeps the first violation.

    Some workers can't know for a while that they have a successor (`Exemptions`). Fencing tokens
    are for what they do meanwhile; their side effects are counted as fenced.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._work: dict[TopicPartition, _Work] = {}
        self._journal = JournalChecker()
        self.exemptions = Exemptions(scheduler)
        self.offsets = OffsetChecker()
        self._scheduler = scheduler
        #: By group, the newest generation in any coordinator's journal.
        self._generations: dict[str, int] = {}
        self._nodes: dict[int, NodeChecks] = {}
        #: The highest fence under which a line was journalled, by group; "" stands for the topics.
        self._fences: dict[str, int] = {}
        #: The first violation.
        self.violation: Violation | None = None
        #: How often things happened, by name.
        self.counts: Counter[str] = Counter()
        self.standbys = StandbyChecker(self.counts)
        self.operations = OperationChecker(self.counts)
        #: Whether machines and networks have no faults, so that no member is ever late.
        self.is_calm = False
        #: Whether coordinators have no faults either, so that no member ever loses them.
        self.is_steady = False
        #: Whether assignors are broken on purpose, so that the ownership guard has to step in.
        self.expects_conflicts = False

    def node(self, number: int = 1) -> NodeChecks:
        """What is checked of one coordinator."""
        checks = self._nodes.get(number)
        if checks is None:
            clock, requests = ClockChecker(self._scheduler), RequestChecker(self._generations)
            checks = self._nodes[number] = NodeChecks(clock, requests)
        return checks

    def fail(self, what: str) -> None:
        """Keep the first violation; the code that caused it might catch an exception."""
        if self.violation is None:
            self.violation = Violation(what)

    def _fail_all(self, violations: Iterable[str]) -> None:
        for violation in violations:
            self.fail(violation)

    # -- what workers do -----------------------------------------------------------------------

    def started(self, worker: Worker, partition: Partition) -> None:
        """No other worker may be at work on it, and the token must be new."""
        work = self._work.setdefault(partition.key, _Work())
        state = worker.options.state
        lag = state.lag(partition.key) if state is not None else None
        self._fail_all(self.standbys.work_started(worker, partition, lag))
        self._check_member(worker, partition, is_exempt=self.exemptions.is_unaware(worker))
        if partition.token < work.token and self.exemptions.covers(worker):
            # It does not know yet that it was removed, and begins what its successor has begun.
            work.running[worker] = partition.token
            self.counts["unaware starts"] += 1
            return
        others = [other for other in work.running if not self.exemptions.covers(other)]
        if others:
            names = ", ".join(other.name for other in others)
            self.fail(f"{partition} has two workers: {worker.name} and {names}")
        # A worker that stopped because its lease ended may have its ownership back, and its token.
        is_back = partition.token == work.token and worker is work.owner
        if partition.token <= work.token and not (is_back and worker not in work.running):
            self.fail(f"{partition}: token {partition.token} after {work.token}")
        work.token, work.owner = partition.token, worker
        work.running[worker] = partition.token
        self.counts["partitions taken"] += 1

    def _check_member(self, worker: Worker, partition: Partition, *, is_exempt: bool) -> None:
        """A member stops before the coordinator drops it, because its lease ends sooner."""
        member_id = worker.group.member_id
        is_member = member_id in self._journal.members(worker.group_id)
        if not is_member and not is_exempt:
            self.fail(f"{partition}: {worker.name} works on it, but {member_id!r} is no member")
        if self._journal.is_away(worker.group_id, member_id) and not is_exempt:
            self.fail(f"{partition}: {worker.name} works on it, but {member_id!r} is away")

    def resumed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """What was stored must still be there.

        A worker that can't know yet that it has a successor may get an answer from before that.
        """
        is_former = partition.token < self._work[partition.key].token
        is_late = is_former and self.exemptions.covers(worker)
        self._fail_all(
            self.offsets.position_read(partition.key, offset, worker.name, is_late=is_late)
        )

    def acted(self, worker: Worker, partition: Partition, offset: int) -> None:
        """Only the newest owner may act, or a fencing token must tell it from its successor."""
        work = self._work[partition.key]
        self.offsets.commit_asked(partition.key, offset)
        if not partition.is_owned:
            self.fail(f"{partition}: {worker.name} works on what its own client says it lost")
        else:
            self._check_member(worker, partition, is_exempt=self.exemptions.is_unaware(worker))
        if partition.token < work.token:
            if not self.exemptions.covers(worker):
                self.fail(f"{partition}: {worker.name} works on it with an old token")
            self.counts["fenced side effects"] += 1
        self.counts["side effects"] += 1

    def committed(self, worker: Worker, partition: Partition, offset: int) -> None:
        """From now on the offset must not be forgotten."""
        work = self._work[partition.key]
        # It may have been accepted long before its worker hears so; the journal tells when.
        if partition.token < work.token and not self.exemptions.covers(worker):
            self.fail(f"{partition}: a commit of {worker.name} was accepted with an old token")
        self.offsets.commit_acknowledged(partition.key, offset)
        self.counts["commits"] += 1

    def ended(self, worker: Worker, partition: Partition) -> None:
        """Another worker may begin."""
        self._work[partition.key].running.pop(worker, None)

    def restoring(self, worker: Worker, standby: Standby) -> None:
        """It must not be at work on the same partition."""
        work = self._work.get(standby.key)
        is_at_work = work is not None and worker in work.running
        self._fail_all(self.standbys.restoring(worker, standby, is_at_work=is_at_work))

    def restored(self, worker: Worker, standby: Standby) -> None:
        """It must still hold what it restores."""
        self._fail_all(self.standbys.restored(worker, standby))

    def restore_ended(self, worker: Worker, standby: Standby) -> None:
        """Work on the partition may begin."""
        self.standbys.restore_ended(worker, standby)

    def committed_standby(self, worker: Worker, standby: Standby) -> None:
        """Only work may commit."""
        self.fail(f"{standby}: {worker.name} committed for a standby")

    def died(self, worker: Worker) -> None:
        """None of its work goes on."""
        self.standbys.died(worker)
        for work in self._work.values():
            work.running.pop(worker, None)

    def client_event(self, worker: Worker, event: ClientEvent) -> None:
        """Count it, and learn which worker has which member id."""
        if isinstance(event, GroupJoined):
            self.exemptions.joined(worker, event.member_id)
            newest = self._journal.generation(worker.group_id)
            if event.generation > newest:
                self.fail(f"{worker.name} is in generation {event.generation}, after {newest}")
        if isinstance(event, CoordinatorLost) and self.is_steady:
            self.fail(
                f"nothing is wrong with the coordinator, but {worker.name} {event.text}: {event}"
            )
        self.counts[f"client: {event.text}"] += 1

    def deletion_failed(self, topic: str, number: int, *, in_doubt: bool) -> None:
        """An administrator was told that a topic is not deleted, or got no answer."""
        if in_doubt:
            self.offsets.deletion_unanswered(topic, number)
            return
        self._fail_all(self.offsets.deletion_refused(topic, number))

    # -- what the journal says -----------------------------------------------------------------

    def journalled(
        self, ts_ms: int, event: Event, wall_ms: int | None = None, node: int = 1, fence: int = 0
    ) -> None:
        """Hold the next line of a coordinator's journal against everything that is known.

        `wall_ms` is what the system's clock shows on its machine.  `fence` orders the times at
        which coordinators had the shard: what one of them writes down after another one has taken
        over was so before that, and is known by now.
        """
        if wall_ms is not None:
            self._fail_all(self.node(node).clock.journalled(ts_ms, event, wall_ms))
        if fence < self._fences.get(event.group, 0):
            self.counts["late lines"] += 1
            return
        self._fences[event.group] = fence
        self._fail_all(self._contradictions(ts_ms, event, node))
        self.exemptions.journalled(event)
        match event:
            case MemberAway():
                self._expired(event)
            case MemberGone() if event.how in _EXPIRIES:
                self._expired(event)
            case OwnershipConflict():
                self._conflicts(event)
            case RebalanceStarted() | PhaseJoined() | RebalanceCompleted():
                self.counts[f"{event.kind.replace('_', ' ')}: {event.cause}"] += 1
                self.counts["rebalances completed"] += isinstance(event, RebalanceCompleted)

    def _contradictions(self, ts_ms: int, event: Event, node: int) -> Iterator[str]:
        yield from self.node(node).requests.journalled(
            event,
            waits_for_members=self._journal.waits_for_members(event.group),
            rebalance_timeout_ms=self._journal.rebalance_timeout_ms(event.group),
        )
        yield from self._journal.journalled(ts_ms, event)
        yield from self.offsets.journalled(event)
        yield from self.operations.journalled(ts_ms, event)

    def _expired(self, event: MemberAway | MemberGone) -> None:
        """No member is dropped as silent or late while nothing is wrong."""
        how = event.how if isinstance(event, MemberGone) else "away"
        self.counts[f"dropped: {how}"] += 1
        worker = self.exemptions.worker(event.member)
        if self.is_calm and worker is not None and worker.is_running:
            self.fail(f"{worker.name} was dropped although nothing is wrong with it: {event}")

    def _conflicts(self, event: OwnershipConflict) -> None:
        self.counts["conflicts withheld" if event.withheld else "conflicts"] += 1
        if not (self.expects_conflicts and event.withheld):
            self.fail(f"the leader assigned what another member owns: {event}")

    # -- at the end ----------------------------------------------------------------------------

    def check_topics(self, existing: Container[str]) -> None:
        """Compare what was said of deletions with the topics that exist."""
        self._fail_all(self.offsets.check(existing))

    def check_settled(
        self, workers: Iterable[Worker], partitions: Iterable[TopicPartition]
    ) -> None:
        """Each partition has one owner at work; workers own what they were assigned."""
        workers, owners = list(workers), dict[TopicPartition, str]()
        wanted = set(partitions)
        are_few = any(self.operations.keeps_copies_away(each.group_id) for each in workers)
        self._fail_all(self.standbys.check_settled(workers, wanted, are_few=are_few))
        for worker in workers:
            for partition in worker.group.owned:
                if partition.key in owners:
                    self.fail(f"{partition} is owned by {owners[partition.key]} and {worker.name}")
                owners[partition.key] = worker.name
                if worker not in self._work[partition.key].running:
                    self.fail(f"{worker.name} owns {partition} but does not work on it")
            self._check_assignment(worker, wanted)
        if owners.keys() != wanted:
            odd = sorted(wanted.symmetric_difference(owners))
            self.fail(f"partitions without an owner, or owned without existing: {odd}")

    def _check_assignment(self, worker: Worker, existing: set[TopicPartition]) -> None:
        """A worker owns what the journal says it was assigned."""
        assigned = self._journal.assignment(worker.group_id, worker.group.member_id)
        owned = {partition.key for partition in worker.group.owned}
        if assigned is not None and owned != assigned & existing:
            self.fail(f"{worker.name} owns {sorted(owned)}, but was assigned {sorted(assigned)}")
