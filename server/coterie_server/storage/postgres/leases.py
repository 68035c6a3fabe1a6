"""Nodes and leases in PostgreSQL."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

from coterie_server.log.logger import get_logger
from coterie_server.storage.abc import (
    Fence,
    Lease,
    NodeEntry,
    OwnerTakenError,
    Survey,
    how_held,
)
from coterie_server.storage.lanes import RejectedError
from coterie_server.storage.postgres.errors import LOCKED, sqlstate
from coterie_server.storage.postgres.link import ANSWER_S, Link
from coterie_server.storage.postgres.session import Session
from coterie_server.storage.postgres.sql import Statements

__all__ = ["LeaseTable"]

T = TypeVar("T")

#: How often a name that another process has is looked at.
_LOOK_S: Final = 0.1
#: A renewal that hangs must leave time for another before the lease has expired.
_RENEWALS_PER_LEASE: Final = 3
_RENEWAL_S_MIN: Final = 0.5
#: How long the answer may take to a question that only people ask: appends wait for it.
_TOLD_S: Final = 0.5

_log = get_logger(__name__)


class LeaseTable:
    """The rows of nodes and leases, as one process sees and changes them.

    What keeps a node alive has a link of its own, so that it waits for nothing else.
    """

    def __init__(self, shown: str, statements: Statements, heartbeat: Link, work: Link) -> None:
        self._shown = shown
        self._statements = statements
        self._heartbeat = heartbeat
        self._work = work
        #: Tells this process from others that use the same names, earlier ones included.
        self._life = secrets.token_bytes(16)
        self._has_names = False
        #: How long an answer may take that keeps the node alive, or keeps what does waiting.
        self._answer_s = ANSWER_S

    # -- nodes ---------------------------------------------------------------------------------

    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Take a name, once no living process has it.

        None has it for longer than a lease without renewing its entry, whatever the clock of the
        database says, which may have been set back.
        """
        statement = self._statements.reserve(owner, self._life, ttl_ms)
        rival: tuple[bytes, str] | None = None
        over_s = math.inf
        self._has_names = True
        time_s = asyncio.get_running_loop().time
        while not await self._heartbeat.run(lambda session: session.execute(statement)):
            rows = await self._heartbeat.run(
                lambda session: session.fetch(self._statements.entry(), owner)
            )
            for row in rows:
                entry = (row["life"], row["until"])
                if rival is None:
                    _log.info(
                        "a process that may have ended has the node's name; waiting for it",
                        owner=owner,
                        left_ms=_left_ms(row),
                    )
                    rival, over_s = entry, time_s() + max(ttl_ms, row["length_ms"] or 0) / 1000
                elif rival != entry:
                    # It was renewed, or is another's already: that process is alive.
                    raise self._taken(owner, row)
                elif time_s() >= over_s:
                    await self._forget(owner, *entry)
            await asyncio.sleep(_LOOK_S)

    async def _forget(self, owner: str, life: bytes, until: str) -> None:
        statement = self._statements.forget(owner, life, until)
        await self._heartbeat.run(lambda session: session.execute(statement))

    async def renew(
        self, owner: str, note: bytes, leases: Sequence[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node's entry and its leases; return those that are still held."""
        statement = self._statements.renew(owner, self._life, note, leases, ttl_ms)
        self._has_names = True
        answer_s = max(ttl_ms / 1000 / _RENEWALS_PER_LEASE, _RENEWAL_S_MIN)
        self._answer_s = min(answer_s, ANSWER_S)
        count = await self._run_soon(lambda session: session.execute(statement))
        if count == (len({lease.shard for lease in leases}) or 1):
            return [_renewed(lease, ttl_ms) for lease in leases]
        # What was lost takes more round trips to learn, each with as much time.
        for row in await self._rows(self._statements.entry(), owner):
            if row["life"] != self._life:
                raise self._taken(owner, row)
        rows = await self._rows(self._statements.held(), owner)
        held = {(row["shard"], Fence(row["timeline"], row["epoch"])) for row in rows}
        return [_renewed(lease, ttl_ms) for lease in leases if (lease.shard, lease.fence) in held]

    async def withdraw(self, owner: str) -> None:
        """List a node no longer."""
        statement = self._statements.withdraw(owner, self._life)
        await self._heartbeat.run(lambda session: session.execute(statement))

    async def give_up_names(self) -> None:
        """Let others have this process's names at once."""
        if self._has_names:
            statement = self._statements.give_up_names(self._life)
            await self._heartbeat.run(lambda session: session.execute(statement))

    async def survey(self) -> Survey:
        """Return all entries and leases."""
        nodes, leases = [], []
        for row in await self._rows(self._statements.survey()):
            if row["shard"] is None:
                nodes.append(NodeEntry(row["owner"], row["note"], _left_ms(row), row["until"]))
            else:
                leases.append(_lease(row))
        return Survey(tuple(sorted(nodes, key=lambda node: node.owner)), tuple(leases))

    async def _run_soon(self, work: Callable[[Session], Awaitable[T]]) -> T:
        return await self._heartbeat.run(work, answer_s=self._answer_s)

    async def _rows(self, query: str, *values: object) -> list[Any]:
        return await self._run_soon(lambda session: session.fetch(query, *values))

    def _taken(self, owner: str, row: Any) -> OwnerTakenError:  # noqa: ANN401  # asyncpg's
        return OwnerTakenError(
            self._shown, owner, f"another process, whose entry is valid for {_left_ms(row)} ms"
        )

    # -- leases --------------------------------------------------------------------------------

    async def claim(self, shards: Collection[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take those of some shards that are free."""
        try:
            return await self._claim(shards, owner, ttl_ms)
        except RejectedError as error:
            if sqlstate(error) != LOCKED or len(shards) == 1:
                raise
            refusal = error
        locked = await self._locked(shards)
        _log.warning(
            "shards can't be claimed: their rows are locked",
            shards=sorted(locked),
            reason=str(refusal),
        )
        free = set(shards) - locked
        return await self._claim(free, owner, ttl_ms) if free else []

    async def _locked(self, shards: Collection[int]) -> set[int]:
        """Which shards others hold, as a former owner's append does that does not end.

        The other shards need not wait for it, nor these one after the other.
        """
        query, asked = self._statements.locked(), list(shards)
        rows = await self._work.run(lambda session: session.fetch(query, asked))
        return {row["shard"] for row in rows}

    async def _claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        claim = secrets.token_bytes(16)
        statement = self._statements.claim(claim, owner, self._life, shards, ttl_ms)

        async def work(session: Session) -> list[Lease]:
            # Its transaction ends with the message, so that a node that is paused holds no rows.
            await session.execute(statement)
            return [_lease(row) for row in await session.fetch(self._statements.claimed(), claim)]

        return await self._work.run(work)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give shards up."""
        if not leases:
            return
        try:
            await self._release(leases)
        except RejectedError as error:
            if sqlstate(error) == LOCKED and len(leases) > 1:
                locked = await self._locked([lease.shard for lease in leases])
                if free := [lease for lease in leases if lease.shard not in locked]:
                    await self._release(free)
            raise

    async def _release(self, leases: Iterable[Lease]) -> None:
        statement = self._statements.release(secrets.token_bytes(16), leases)
        await self._work.run(lambda session: session.execute(statement))

    async def holder(self, shard: int) -> str:
        """How a shard is held, for people."""
        rows = await self._work.run(
            lambda session: session.fetch(self._statements.lease_of(), shard),
            answer_s=_TOLD_S,
            connect_s=_TOLD_S,
        )
        return how_held(shard, _lease(rows[0]) if rows else None)


def _lease(row: Any) -> Lease:  # noqa: ANN401  # asyncpg has no types
    fence = Fence(row["timeline"], row["epoch"])
    return Lease(row["shard"], fence, row["owner"], _left_ms(row), row["until"])


def _left_ms(row: Any) -> int:  # noqa: ANN401  # asyncpg has no types
    # Nothing is left of what is dated by a timeline that is not known.
    return max(int(row["left_ms"] or 0), 0)


def _renewed(lease: Lease, ttl_ms: int) -> Lease:
    return Lease(lease.shard, lease.fence, lease.owner, ttl_ms)
