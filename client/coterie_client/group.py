"""`Group`: a member of a group, as its user sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Final, Literal, Self

from coterie_assignors import Assignor, WarmSettings
from coterie_client import checks
from coterie_client.changes import Changes
from coterie_client.counters import GroupCounters
from coterie_client.driver import Driver
from coterie_client.errors import GroupMisuseError
from coterie_client.membership import (
    ClosedError,
    Membership,
    MembershipConfig,
    Phase,
    Sources,
)
from coterie_client.membership.telling import member_data
from coterie_client.options import (
    Held,
    assignors_or_default,
    held_lags,
    leaves_when_closed,
    network_of,
    plain_hook,
    registration_ms,
    sources_or_default,
    supervisor_options,
    warm_settings,
)
from coterie_client.partition import Partition
from coterie_client.partition_owner import PartitionOwner
from coterie_client.reporting import OnEvent, Reporter
from coterie_client.signals import stop_signals
from coterie_client.standby import Standby
from coterie_client.tasks import Hooks, Tasks
from coterie_client.wire import PLAINTEXT, Bootstrap, Dial, Security
from coterie_client.work.callables import require_async
from coterie_client.work.events import WorkLeftBehind
from coterie_client.work.policies import OnStall, Policy, Restart
from coterie_client.work.restores import Restore
from coterie_client.work.supervisor import Work

__all__ = ["Group"]

#: How long leaving the group may take after all work has ended, before it is given up.
_LEAVE_S: Final = 5.0


class Group:
    """A member of a group.

    ``async with Group(...) as group:`` begins to join, and at its end stops all work, leaves the
    group and closes the connections.  Within it, ``await group.run(work)`` runs a task for each
    partition, or ``async for change in group.changes():`` tells what changes.

    All times are in seconds.  `close_timeout` is how long work may take to end when the group is
    closed.  With `stop_on_signals`, SIGTERM and Ctrl-C call `stop`.
    """

    # What a group begins with.
    _use: Literal["run", "changes"] | None = None
    _tasks: Tasks | None = None
    _changes: Changes | None = None
    _is_entered = False
    _close_by_s: float | None = None
    _last_resort: asyncio.TimerHandle | None = None
    _shutting: asyncio.Task[None] | None = None
    #: Whether the error that ended the group was raised.
    _is_raised = False

    def __init__(  # noqa: PLR0913  # named options, nearly all of them with Kafka's defaults
        self,
        bootstrap: Bootstrap,
        group: str,
        *,
        topics: Collection[str],
        instance: str | None = None,
        rack: str | None = None,
        address: str | None = None,
        labels: Mapping[str, str] | None = None,
        assignors: Sequence[Assignor] | None = None,
        client_id: str = "coterie",
        security: Security = PLAINTEXT,
        session_timeout: float = 45.0,
        registration_timeout: float | None = None,
        heartbeat_interval: float = 3.0,
        rebalance_timeout: float = 300.0,
        request_timeout: float = 30.0,
        metadata_max_age: float = 60.0,
        leave_on_close: bool | None = None,
        close_timeout: float = 30.0,
        stop_on_signals: bool = False,
        allow_auto_create_topics: bool = True,
        stop_when_silent: bool = True,
        warm: WarmSettings | None = None,
        ready_interval: float = 10.0,
        tags: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        dial: Dial | None = None,
        sources: Sources | None = None,
    ) -> None:
        self._name, self._topics = group, checks.names("topics", topics)
        self._leaves = leaves_when_closed(leave_on_close, instance)
        self._close_timeout_s = checks.seconds("close_timeout", close_timeout)
        self._signals = stop_signals(stop_on_signals, self._begin_to_close)
        config = MembershipConfig(
            group=group,
            instance=instance,
            rack=rack,
            session_timeout_ms=checks.milliseconds("session_timeout", session_timeout),
            registration_timeout_ms=registration_ms(registration_timeout, instance),
            heartbeat_interval_ms=checks.milliseconds("heartbeat_interval", heartbeat_interval),
            rebalance_timeout_ms=checks.milliseconds("rebalance_timeout", rebalance_timeout),
            request_timeout_ms=checks.milliseconds("request_timeout", request_timeout),
            metadata_max_age_ms=checks.milliseconds("metadata_max_age", metadata_max_age),
            allow_auto_create_topics=allow_auto_create_topics,
            stop_when_silent=stop_when_silent,
            warm=warm_settings(warm),
            ready_interval_ms=checks.milliseconds("ready_interval", ready_interval),
            tags=checks.texts("tags", tags or {}),
        )
        self._sources = sources = sources_or_default(sources)
        self._network = network_of(bootstrap, security, client_id, dial, sources)
        self._counters = counters = GroupCounters(wire=self._network.counters)
        self._report = Reporter(group, counters, plain_hook(on_event))
        self._membership = Membership(config, assignors_or_default(assignors), sources)
        self._membership.tell(member_data(address, labels))
        self._driver = Driver(self._membership, self._network, self._report, counters)
        self._owner = PartitionOwner(self._driver)

    # -- looking -------------------------------------------------------------------------------

    @property
    def owned(self) -> tuple[Partition, ...]:
        """The partitions that are ours, including those that are being let go of."""
        return self._owner.partitions

    @property
    def standbys(self) -> tuple[Standby, ...]:
        """The partitions of other members whose state is kept up to date here."""
        return self._owner.standbys

    @property
    def phase(self) -> Phase:
        """What the member is doing."""
        return self._membership.phase

    @property
    def is_settled(self) -> bool:
        """Whether the member is at work, and neither lets go of anything nor wants to join."""
        return self._membership.is_settled

    @property
    def is_over(self) -> bool:
        """Whether the group was left, or is about to be."""
        return self._driver.over.is_set() or self._close_by_s is not None

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave this member; empty before it has."""
        return self._membership.identity.member_id

    @property
    def generation(self) -> int:
        """The generation that the member is part of; -1 if it is in none."""
        return self._membership.identity.generation

    @property
    def counters(self) -> GroupCounters:
        """What has happened so far."""
        return self._counters

    def __repr__(self) -> str:
        return f"<Group {self._name!r} {self.phase.name.lower()} generation={self.generation}>"

    # -- asking --------------------------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics instead of the former ones."""
        wanted = checks.names("topics", topics)
        self._require_open()
        self._topics = wanted
        self._driver.subscribe(wanted)

    def announce(self, address: str | None = None, labels: Mapping[str, str] | None = None) -> None:
        """Tell this address and these labels instead of the former ones; the member joins anew."""
        told = member_data(address, labels)
        self._require_open()
        if self._membership.tell(told):
            self._driver.rejoin("what it tells of itself has changed")

    def rejoin(self, reason: str = "the user asked for it") -> None:
        """Make the group rebalance."""
        checks.text("reason", reason)
        self._require_open()
        self._driver.rejoin(reason)

    def stop(self) -> None:
        """Begin to end all work and to leave; `run` returns and `changes` ends when that is done.

        It may be called more than once, and from anywhere in the event loop's thread, such as from
        `on_event` or an assignor: it takes effect when what is under way is done.
        """
        self._require_entered()
        self._begin_to_close("stopped")

    # -- working -------------------------------------------------------------------------------

    async def run(
        self,
        work: Work,
        *,
        warm: Restore | None = None,
        held: Held | None = None,
        on_error: Policy = Restart(),  # noqa: B008  # frozen
        progress_deadline: float | None = None,
        on_stall: OnStall = "report",
    ) -> None:
        """Run `work(partition)` as a task of its own for each partition that is ours.

        When a partition is revoked, its task is cancelled, and the partition is let go of when the
        task has ended.  When it is lost, the task is cancelled, and its commits fail.  After a task
        returns, nothing works on its partition until that is assigned anew; when one raises,
        `on_error` decides what follows.

        With a `progress_deadline`, work that has neither committed nor called
        `partition.progress()` for that many seconds is reported, and restarted or released if
        `on_stall` says so.

        With `warm`, partitions carry state, and move only to members that are ready for them:
        `warm(standby)` runs as a task for each partition whose state is to be brought up to date
        here, and says by `standby.lag(n)` how far behind it is.  When the partition becomes ours,
        that task is cancelled, and `work` begins when it has ended.  `held()` tells what is on
        disk already: the lag of each partition's state there, None where it is not known.  It is
        asked before each join.

        Returns after `stop` was called; raises the error if the group can't go on.
        """
        require_async(work)
        options = supervisor_options(on_error, progress_deadline, on_stall)
        lags = held_lags(warm, held)
        self._claim("run")
        hooks = Hooks(
            failed=lambda: self._begin_to_close("the work failed"),
            crash=self._driver.crash,
            emit=self._report,
            random=self._sources.random,
        )
        self._tasks = Tasks(self._owner, work, warm, options, hooks)
        if lags is not None:
            self._driver.keep_warm(lags)
        try:
            await self._driver.over.wait()
        except asyncio.CancelledError:
            self._begin_to_close("cancelled")
            await self._work_ended()
            raise
        await self._work_ended()
        self._raise_reason()

    def changes(self) -> Changes:
        """Tell which partitions become ours and which do not stay so, for ``async for``.

        Partitions that were revoked are let go of when the next change is asked for.  The loop ends
        after `stop` was called; it raises the error if the group can't go on.
        """
        self._claim("changes")
        self._changes = made = Changes(self._owner.released, self._raise_reason, self._driver.home)
        self._owner.attach(made)
        if self._driver.over.is_set():
            made.ended()
        return made

    def _claim(self, use: Literal["run", "changes"]) -> None:
        # A signal that comes before there is any work is no error: there will just be none.
        if self._signals is None or not self._signals.is_received or self._shutting is not None:
            self._require_open()
        if self._use is not None:
            raise GroupMisuseError(
                f"This group is already used by {self._use}(): make another Group for {use}()."
            )
        self._use = use

    def _require_entered(self) -> None:
        if not self._is_entered:
            raise GroupMisuseError("Enter the group first: async with Group(...) as group.")
        self._driver.home.require()

    def _require_open(self) -> None:
        self._require_entered()
        if self.is_over:
            self._raise_reason()
            raise ClosedError("the group has been left; make another Group")

    @property
    def _reason(self) -> BaseException | None:
        """The error that ended the group, if it was one."""
        failure = self._tasks.failure if self._tasks is not None else None
        return failure or self._driver.error

    def _raise_reason(self) -> None:
        if (reason := self._reason) is not None:
            self._is_raised = True
            raise reason

    # -- entering and leaving-------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise GroupMisuseError("A group is entered once; make another Group.")
        if self._signals is not None:
            self._signals.listen()
        self._is_entered = True
        self._driver.start(self._topics, self._owner, self._sources.asleep_ms)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
        if self._is_raised:
            return
        if error is None:
            self._raise_reason()
        elif (reason := self._reason) is not None:
            self._report.unraised("the group had ended before, because of this", reason)

    async def aclose(self) -> None:
        """End all work, leave, and close the connections.

        A cancellation meanwhile is raised when all that is done, which takes `close_timeout` and a
        few seconds at most.
        """
        self._require_entered()
        current = asyncio.current_task()
        if self._tasks is not None and current in self._tasks.running:
            raise GroupMisuseError(
                "Work can't wait for its own end: call stop() instead of aclose() in it."
            )
        if self._changes is not None and not self._changes.is_read_elsewhere(current):
            self._owner.detach()
            self._changes.leave_out_unread()
        if self._shutting is None:
            self._shutting = asyncio.create_task(self._shut_down(), name="coterie closing")
            if self._signals is not None:
                self._shutting.add_done_callback(self._signals.unlisten)
        cancelled: asyncio.CancelledError | None = None
        while not self._shutting.done():
            try:
                await asyncio.wait([self._shutting])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        self._shutting.result()

    def _begin_to_close(self, reason: str) -> None:
        if self._close_by_s is None:
            loop = asyncio.get_running_loop()
            self._close_by_s = loop.time() + self._close_timeout_s
            # Ends it all if even leaving takes too long.
            error = ClosedError("the group could not be left in time")
            self._last_resort = loop.call_at(
                self._close_by_s + _LEAVE_S, self._driver.give_in, error
            )
        self._driver.close(leave=self._leaves, within_s=self._close_timeout_s, reason=reason)

    async def _shut_down(self) -> None:
        try:
            self._begin_to_close("closed")
            await self._work_ended()
            self._report_left_behind()
        finally:
            if self._last_resort is not None:
                self._last_resort.cancel()
            await self._driver.aclose()
            await self._network.aclose()

    async def _work_ended(self) -> None:
        """Wait until the group is over and no task of ours runs, as long as there is time."""
        await self._driver.over.wait()
        now_s = asyncio.get_running_loop().time()
        if self._close_by_s is None:
            self._close_by_s = now_s + self._close_timeout_s
        tasks = self._tasks.running if self._tasks is not None else ()
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, self._close_by_s - now_s))

    def _report_left_behind(self) -> None:
        if self._tasks is not None and self._tasks.running:
            self._report(WorkLeftBehind(partitions=self._tasks.partitions))
