"""Membership in a group, as users write it."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Literal, Self

from coterie_assignors import Assignor, CooperativeStickyAssignor
from coterie_client import checks
from coterie_client.asleep import asleep_ms
from coterie_client.changes import Changes
from coterie_client.counters import GroupCounters
from coterie_client.desk import Desk
from coterie_client.driver import Driver
from coterie_client.errors import ConfigurationError, GroupMisuseError
from coterie_client.membership import (
    ClosedError,
    Membership,
    MembershipConfig,
    Phase,
    Sources,
)
from coterie_client.partition import Partition
from coterie_client.reporting import OnEvent, Reporter
from coterie_client.wire import PLAINTEXT, Bootstrap, Dial, Network, Security
from coterie_client.work.callables import is_async, require_async
from coterie_client.work.events import WorkLeftBehind
from coterie_client.work.policies import OnStall, Policy, Restart
from coterie_client.work.supervisor import SupervisorOptions, TaskSupervisor, Work

__all__ = ["Group", "default_sources"]

#: What saying goodbye may take after all work has ended, before the connections are just dropped.
_GOODBYE_S: Final = 5.0

#: Where chance and the date come from where nobody says otherwise; virtual worlds say so for all
#: that runs in them.
default_sources: ContextVar[Sources | None] = ContextVar("coterie_default_sources", default=None)

_OS_SOURCES: Final = Sources(
    random=random.random,  # for jitter
    wall_ms=lambda: time.time_ns() // 1_000_000,
    host=socket.gethostname(),
    asleep_ms=asleep_ms,
)


class Group:
    """A member of a group.

    ``async with Group(...) as group:`` begins to join, and on leaving the block ends all work,
    leaves the group and closes the connections. Within it, ``await group.run(work)`` runs a task
    for each partition, or ``async for change in group.changes():`` tells what changes.

    All times are in seconds. `close_timeout` is what work gets to end when the group is closed.
    """

    def __init__(  # noqa: PLR0913  # named options, nearly all of them with Kafka's defaults
        self,
        bootstrap: Bootstrap,
        group: str,
        *,
        topics: Collection[str],
        instance: str | None = None,
        rack: str | None = None,
        assignors: Sequence[Assignor] | None = None,
        client_id: str = "coterie",
        security: Security = PLAINTEXT,
        session_timeout: float = 45.0,
        heartbeat_interval: float = 3.0,
        rebalance_timeout: float = 300.0,
        request_timeout: float = 30.0,
        metadata_max_age: float = 60.0,
        leave_on_close: bool | None = None,
        close_timeout: float = 30.0,
        allow_auto_create_topics: bool = True,
        stop_when_silent: bool = True,
        on_event: OnEvent | None = None,
        dial: Dial | None = None,
        sources: Sources | None = None,
    ) -> None:
        self._topics = checks.names("topics", topics)
        self._leaves = _leaves(leave_on_close, instance)
        self._close_timeout_s = checks.seconds("close_timeout", close_timeout)
        config = MembershipConfig(
            group=group,
            instance=instance,
            rack=rack,
            session_timeout_ms=checks.milliseconds("session_timeout", session_timeout),
            heartbeat_interval_ms=checks.milliseconds("heartbeat_interval", heartbeat_interval),
            rebalance_timeout_ms=checks.milliseconds("rebalance_timeout", rebalance_timeout),
            request_timeout_ms=checks.milliseconds("request_timeout", request_timeout),
            metadata_max_age_ms=checks.milliseconds("metadata_max_age", metadata_max_age),
            allow_auto_create_topics=allow_auto_create_topics,
            stop_when_silent=stop_when_silent,
        )
        self._sources = sources = _sources(sources)
        self._network = Network(
            bootstrap, security=security, client_id=client_id, dial=dial, random=sources.random
        )
        self._counters = GroupCounters(wire=self._network.counters)
        self._report = Reporter(group, self._counters, _hook(on_event))
        self._membership = Membership(config, _assignors(assignors), sources)
        self._driver = Driver(self._membership, self._network, self._report, self._counters)
        self._desk = Desk(self._driver)
        self._name = group
        self._use: Literal["run", "changes"] | None = None
        self._supervisor: TaskSupervisor | None = None
        self._changes: Changes | None = None
        self._is_entered = False
        self._close_by_s: float | None = None
        self._last_resort: asyncio.TimerHandle | None = None
        self._shutting: asyncio.Task[None] | None = None
        #: Whether somebody was told why the group ended.
        self._is_told = False

    # -- looking -------------------------------------------------------------------------------

    @property
    def owned(self) -> tuple[Partition, ...]:
        """The partitions that are ours, those that are being let go of included."""
        return self._desk.partitions

    @property
    def phase(self) -> Phase:
        """What the member is about."""
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
        """What the coordinator calls this member; empty as long as it has no name for it."""
        return self._membership.identity.member_id

    @property
    def generation(self) -> int:
        """The generation that the member is part of, or -1."""
        return self._membership.identity.generation

    @property
    def counters(self) -> GroupCounters:
        """What has happened so far."""
        return self._counters

    def __repr__(self) -> str:
        return f"<Group {self._name!r} {self.phase.name.lower()} generation={self.generation}>"

    # -- wishes --------------------------------------------------------------------------------

    def subscribe(self, topics: Collection[str]) -> None:
        """Want these topics from now on instead of the former ones."""
        wanted = checks.names("topics", topics)
        self._require_open()
        self._topics = wanted
        self._driver.subscribe(wanted)

    def rejoin(self, reason: str = "the user asked for it") -> None:
        """Have the group share out its partitions anew."""
        checks.text("reason", reason)
        self._require_open()
        self._driver.rejoin(reason)

    def stop(self) -> None:
        """Begin to end all work and to leave; `run` returns and `changes` ends when that is done.

        May be called again, and from anywhere in the event loop's thread.
        """
        self._require_entered()
        self._begin_to_close("stopped")

    # -- working -------------------------------------------------------------------------------

    async def run(
        self,
        work: Work,
        *,
        on_error: Policy = Restart(),  # noqa: B008  # frozen
        progress_deadline: float | None = None,
        on_stall: OnStall = "report",
    ) -> None:
        """Run `work(partition)` as a task of its own for each partition that is ours.

        When a partition is revoked its task is cancelled, and the partition is let go of when the
        task has ended. When it is lost the task is cancelled, and its commits fail. A task that
        returns rests until its partition is assigned anew; one that raises is `on_error`'s case.

        With a `progress_deadline`, work that has neither committed nor called
        `partition.progress()` for as many seconds is reported, and restarted or released if
        `on_stall` says so.

        Returns when `stop` was called, and raises why the group can't go on otherwise.
        """
        require_async(work)
        options = _supervisor_options(on_error, progress_deadline, on_stall)
        self._claim("run")
        self._supervisor = supervisor = TaskSupervisor(
            work,
            options,
            released=self._desk.released,
            give_up=self._desk.give_up,
            failed=lambda: self._begin_to_close("the work failed"),
            crash=self._driver.crash,
            emit=self._report,
            random=self._sources.random,
        )
        self._desk.attach(supervisor)
        try:
            await self._driver.over.wait()
        except asyncio.CancelledError:
            self._begin_to_close("cancelled")
            await self._work_ended()
            raise
        await self._work_ended()
        self._raise_reason()

    def changes(self) -> Changes:
        """Tell what becomes ours and what does not stay so, for ``async for``.

        Partitions that were revoked are let go of when the next change is asked for. The loop ends
        when `stop` was called, and raises why the group can't go on otherwise.
        """
        self._claim("changes")
        self._changes = changes = Changes(self._desk.released, self._raise_reason)
        self._desk.attach(changes)
        return changes

    def _claim(self, use: Literal["run", "changes"]) -> None:
        self._require_open()
        if self._use is not None:
            raise GroupMisuseError(
                f"This group is in use by {self._use}() already; make another Group for {use}()."
            )
        self._use = use

    def _require_entered(self) -> None:
        if not self._is_entered:
            raise GroupMisuseError("Enter the group first: async with Group(...) as group.")

    def _require_open(self) -> None:
        self._require_entered()
        if self.is_over:
            self._raise_reason()
            raise ClosedError("the group has been left; make another Group")

    @property
    def _reason(self) -> BaseException | None:
        """Why the group ended, if it was not for somebody's wish."""
        failure = self._supervisor.failure if self._supervisor is not None else None
        return failure or self._driver.error

    def _raise_reason(self) -> None:
        if (reason := self._reason) is not None:
            self._is_told = True
            raise reason

    # -- beginning and end ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise GroupMisuseError("A group is entered once; make another Group.")
        self._is_entered = True
        self._driver.start(self._topics, self._desk, self._sources.asleep_ms)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
        if self._is_told:
            return
        if error is None:
            self._raise_reason()
        elif (reason := self._reason) is not None:
            self._report.unraised("the group had ended before, because of this", reason)

    async def aclose(self) -> None:
        """End all work, leave, and close the connections.

        Whoever is cancelled while that goes on has it finished first: it takes `close_timeout` and
        a few seconds at most.
        """
        self._require_entered()
        current = asyncio.current_task()
        if self._supervisor is not None and current in self._supervisor.tasks.values():
            raise GroupMisuseError("Work can't wait for its own end: call stop() in it.")
        if self._changes is not None and not self._changes.is_read_elsewhere(current):
            self._desk.detach()
        if self._shutting is None:
            self._shutting = asyncio.create_task(self._shut_down(), name="coterie closing")
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
            # Ends it all if even saying goodbye takes too long.
            error = ClosedError("the group could not be left in time")
            self._last_resort = loop.call_at(
                self._close_by_s + _GOODBYE_S, self._driver.give_in, error
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
        tasks = self._supervisor.tasks.values() if self._supervisor is not None else ()
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, self._close_by_s - now_s))

    def _report_left_behind(self) -> None:
        tasks = self._supervisor.tasks if self._supervisor is not None else {}
        if tasks:
            self._report(WorkLeftBehind(partitions=tuple(sorted(tasks))))


def _leaves(leave_on_close: bool | None, instance: str | None) -> bool:  # noqa: FBT001  # the option
    if leave_on_close is not None:
        return checks.flag("leave_on_close", leave_on_close)
    # A static member comes back under its name, and finds its partitions waiting for it.
    return instance is None


def _sources(sources: Sources | None) -> Sources:
    if sources is not None:
        return checks.instance_of("sources", Sources, "a Sources", sources)
    return default_sources.get() or _OS_SOURCES


def _assignors(assignors: Sequence[Assignor] | None) -> tuple[Assignor, ...]:
    if assignors is None:
        return (CooperativeStickyAssignor(),)
    what = "a list of assignors, at least one"
    if not isinstance(assignors, Iterable):
        checks.must_be("assignors", what, assignors)
    given = tuple(assignors)
    if not given:
        checks.must_be("assignors", what, assignors)
    for each in given:
        if not isinstance(each, Assignor):
            checks.must_be("each of assignors", "an Assignor, and not its class", each)
    return given


def _hook(on_event: OnEvent | None) -> OnEvent | None:
    if on_event is None:
        return None
    checks.plain_callable("on_event", on_event)
    if is_async(on_event):
        raise ConfigurationError(
            "on_event must be a plain function, which may put the event into a queue: it is called"
            " and not awaited."
        )
    return on_event


def _supervisor_options(
    on_error: Policy, deadline_s: float | None, on_stall: OnStall
) -> SupervisorOptions:
    # Whoever leaves out the brackets should hear of it now and not when something fails.
    if not isinstance(on_error, Policy):
        checks.must_be("on_error", "a Restart(), Release() or Stop()", on_error)
    if on_stall not in ("report", "restart", "release"):
        checks.must_be("on_stall", "'report', 'restart' or 'release'", on_stall)
    if deadline_s is not None:
        deadline_s = checks.seconds("progress_deadline", deadline_s)
    elif on_stall != "report":
        raise ConfigurationError(
            f"progress_deadline must be given with on_stall={on_stall!r}, or nothing would stall"
        )
    return SupervisorOptions(on_error=on_error, progress_deadline=deadline_s, on_stall=on_stall)
