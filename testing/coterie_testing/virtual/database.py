"""A database on a machine of its own, which several nodes reach over the network."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from coterie_server.storage import Fence, KeptRecord, Lease, MemoryStore, Record, StoreError
from coterie_server.storage.abc import how_held
from coterie_server.storage.lanes import Changes, Lanes
from coterie_testing.virtual.conditions import RETRY_S
from coterie_testing.virtual.disk import Disk, DiskOptions, DiskStore, finish_now, settle
from coterie_testing.virtual.network import Network
from coterie_testing.virtual.process import Process

__all__ = ["Database", "DatabaseStore"]

T = TypeVar("T")

#: How long a node waits for an answer before it gives the connection up.
_PATIENCE_S: Final = 4.0
#: How long the name of a process that died stays taken, at most.
_NAME_KEPT_S: Final = 3.0
#: Connections for appends, as a node has them to PostgreSQL.
_LANES: Final = 3


@dataclass(eq=False, slots=True)
class _Call:
    """A call on its way to the database, or its answer on the way back."""

    link: _Link
    commit: Callable[[], Any]
    done: asyncio.Future[Any]
    timeout: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        """Have its caller learn that it may or may not have happened."""
        if self.timeout is not None:
            self.timeout.cancel()
        settle(self.done, None, error)


@dataclass(eq=False, slots=True)
class _Link:
    """One of a node's connections, on which calls and answers keep their order."""

    process: Process
    is_broken: bool = False
    arrives_s: float = 0.0
    returns_s: float = 0.0
    #: Calls that were not answered yet.
    pending: dict[_Call, None] = field(default_factory=dict)
    #: Those of them that have not reached the database, in their order.
    under_way: deque[_Call] = field(default_factory=deque)
    #: Those that the database is at, or will be.
    taken: deque[_Call] = field(default_factory=deque)


class Database(Disk):
    """What several nodes share: their calls reach it over the network, and so do its answers.

    A call whose answer does not come in time fails, and may yet be carried out: what had been sent
    arrives, up to some point, whatever has become of its sender.
    """

    def __init__(
        self, network: Network, options: DiskOptions | None = None, host: str = "database"
    ) -> None:
        super().__init__(network.scheduler, options)
        self.host = host
        self.content.promote()  # a database has a timeline from the start
        self.is_down = False
        self._conditions = network.conditions
        #: By process, and what each of its connections is for.
        self._links: dict[tuple[Process, str], _Link] = {}
        self._crashes = 0

    # -- calls ---------------------------------------------------------------------------------

    def write(
        self, process: Process, commit: Callable[[], T], purpose: str = ""
    ) -> asyncio.Future[T]:
        """Send a call; the future is done when its answer is there, or is waited for no longer."""
        link = self._links.get((process, purpose))
        if link is None or link.is_broken:
            link = self._links[process, purpose] = _Link(process)
        done: asyncio.Future[T] = process.create_future()
        call = _Call(link, commit, done)
        call.timeout = process.call_later(_PATIENCE_S, self._give_up, call)
        link.pending[call] = None
        link.under_way.append(call)
        link.arrives_s = max(link.arrives_s, self.scheduler.now_s + self._conditions.travel_s())
        self.scheduler.at(link.arrives_s, self._arrive, link)
        return done

    def _arrive(self, link: _Link) -> None:
        """Take the next call of a link, if it gets through."""
        if not link.under_way:
            return  # it was lost
        if self._conditions.are_isolated(link.process.host, self.host):
            self.scheduler.after(RETRY_S, self._arrive, link)
            return
        call = link.under_way.popleft()
        if self.is_down:
            self._answer(call, None, StoreError("the database is down"))
            return
        link.taken.append(call)
        if len(link.taken) == 1:
            self._begin_next(link)

    def _begin_next(self, link: _Link) -> None:
        """Carry out the next call of a link; each link's calls are carried out one by one."""
        delay_s = self.scheduler.random.uniform(*self.options.write_s)
        self.scheduler.after(delay_s, self._end, link, self._crashes)

    def _end(self, link: _Link, crashes: int) -> None:
        if crashes != self._crashes:
            return
        call = link.taken.popleft()
        result, error = None, None
        try:
            if self.scheduler.random.random() < self.options.error_chance:
                raise StoreError("the database failed")  # noqa: TRY301  # as a commit may raise
            result = call.commit()
        except Exception as failure:  # noqa: BLE001  # the caller's to deal with
            error = failure
        self._answer(call, result, error)
        if link.taken:
            self._begin_next(link)

    def _answer(self, call: _Call, result: object, error: Exception | None) -> None:
        link = call.link
        link.returns_s = max(link.returns_s, self.scheduler.now_s + self._conditions.travel_s())
        self.scheduler.at(link.returns_s, self._return, call, result, error)

    def _return(self, call: _Call, result: object, error: Exception | None) -> None:
        link = call.link
        if link.is_broken or link.process.is_dead:
            return
        if self._conditions.are_isolated(link.process.host, self.host):
            self.scheduler.after(RETRY_S, self._return, call, result, error)
            return
        link.process.arrive(self._hear, call, result, error)

    def _hear(self, call: _Call, result: object, error: Exception | None) -> None:
        call.link.pending.pop(call, None)
        if call.done.done():
            return
        if error is not None:
            call.fail(error)
        else:
            if call.timeout is not None:
                call.timeout.cancel()
            call.done.set_result(result)

    def _give_up(self, call: _Call) -> None:
        if not call.done.done():
            self._fail(call.link, StoreError("the database does not answer"))

    def _fail(self, link: _Link, error: StoreError) -> None:
        """Fail all that was sent over a link, in the process that sent it."""
        self._break(link)
        for call in list(link.pending):
            call.fail(error)
        link.pending.clear()

    def _break(self, link: _Link) -> None:
        """Lose some of what is under way, and all answers."""
        if not link.is_broken:
            link.is_broken = True
            kept = self.scheduler.random.randint(0, len(link.under_way))
            while len(link.under_way) > kept:
                link.under_way.pop()

    def crash(self, process: Process) -> None:
        """A process died: what it has sent may still arrive."""
        for key in [key for key in self._links if key[0] is process]:
            self._break(self._links.pop(key))

    # -- the machine ---------------------------------------------------------------------------

    def stop(self) -> None:
        """Let it crash: some of what it was doing is durable, and its connections break."""
        for link in self._links.values():
            kept = self.scheduler.random.randint(0, len(link.taken))
            for number, call in enumerate(link.taken):
                if number < kept:
                    self._carry_out(call)
            link.taken.clear()
        self._crashes += 1
        self.is_down = True
        for link in self._links.values():
            if not link.is_broken:
                self._break(link)
                error = StoreError("the database closed the connection")
                link.process.arrive(self._fail, link, error)

    def _carry_out(self, call: _Call) -> None:
        try:
            call.commit()
        except Exception:  # noqa: BLE001  # nothing hears of it
            return
        self.durable_unacknowledged += 1

    def start(self) -> None:
        """Serve again."""
        self.is_down = False

    def replicate(self) -> Callable[[], None]:
        """Copy what there is now; the function that is returned has a replica go on from there."""
        content = self.content._content  # noqa: SLF001  # what the copy replaces
        parts = ("records", "epochs", "leases", "nodes", "agreed")
        copies = {name: copy.deepcopy(getattr(content, name)) for name in parts}

        def take_over() -> None:
            for name, value in copies.items():
                setattr(content, name, value)
            self.promote()

        return take_over

    def promote(self) -> None:
        """Have a replica take over that has everything, as a synchronous one has."""
        self.content.promote()


class DatabaseStore(DiskStore):
    """A store in a shared database, whose appends take the same lanes as those to PostgreSQL."""

    is_shared = True

    def __init__(self, database: Database, process: Process) -> None:
        super().__init__(database, process)
        self._database = database
        self._lanes = Lanes(self, _LANES)
        process.on_death.remove(self.give_up_names)
        process.on_death.append(self._keep_names)

    def _keep_names(self) -> None:
        """A database takes a while to notice that a process has died."""
        scheduler = self._process.scheduler
        scheduler.after(scheduler.random.uniform(0.0, _NAME_KEPT_S), self.give_up_names)

    async def open(self) -> None:
        """Connect."""
        await super().open()
        await self._disk.write(self._process, lambda: None)

    async def close(self) -> None:
        """Finish what was queued, then refuse any use of the store."""
        await self._lanes.finish()
        await super().close()

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held, whatever else waits for an answer."""
        renew, held = MemoryStore.renew, tuple(leases)
        return await self._write(lambda: renew(self, owner, note, held, ttl_ms), "renewals")

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Make records durable, all of them or none."""
        self._opened()
        await asyncio.shield(self._lanes.append(lease, records))

    async def load(self, shard: int) -> list[KeptRecord]:
        """Return what a shard holds, in key order."""
        await self._lanes.settled(shard)
        return await super().load(shard)

    # -- what lanes need -----------------------------------------------------------------------

    def size(self, key: bytes, value: bytes | None) -> int:
        """How long a record is."""
        return len(key) + len(value or b"")

    async def write(self, lane: int, fences: Mapping[int, Fence], changes: Changes) -> bool:
        """Write to shards, all or none; return False if one of the fences has passed."""

        def commit() -> bool:
            if not all(self._is_under(*each) for each in fences.items()):
                return False
            for shard, values in changes.items():
                finish_now(self._keep(shard, fences[shard], values))
            return True

        return await self._database.write(self._process, commit, f"lane {lane}")

    async def _keep(self, shard: int, fence: Fence, values: Mapping[bytes, bytes | None]) -> None:
        await MemoryStore.append(self, Lease(shard, fence, "", 0), values.items())

    async def holder(self, shard: int) -> str:
        """How a shard is held now, for people."""
        survey = await self.survey()
        return how_held(shard, next((each for each in survey.leases if each.shard == shard), None))

    async def _write(self, call: Callable[[], Coroutine[Any, Any, T]], purpose: str = "") -> T:
        self._opened()
        return await self._database.write(self._process, lambda: finish_now(call()), purpose)

    # -- names ---------------------------------------------------------------------------------

    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Reserve a name for as long as the store is open."""
        reserve = super().reserve

        async def reserve_for_the_living() -> None:
            if self._process.is_alive:  # or the name would be taken for ever
                await reserve(owner, ttl_ms)

        await self._write(reserve_for_the_living)

    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed."""
        agree = super().agree
        return await self._write(lambda: agree(name, value))
