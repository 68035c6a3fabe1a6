"""A well-behaved group that notices if others disturb it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Final, Self

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.live.wire import Wire, run

__all__ = ["Account", "SteadyGroup"]

_MEMBERS: Final = 3
_SESSION_MS: Final = 10_000
_HEARTBEAT_S: Final = 1.0
#: What counts as slow: a client with usual settings would not have noticed even this.
_SLOW_S: Final = 1.0
_JOIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """What the group has seen so far."""

    generation: int
    beats: int
    slow: int
    #: Whatever was not as it should be.
    complaints: tuple[str, ...]


class SteadyGroup:
    """Three members with a heartbeat a second each, in a thread of their own.

    As a context manager it has formed its group when the block begins.
    """

    def __init__(self, port: int, group: str = "well-behaved") -> None:
        """Join nothing yet."""
        self._port = port
        self._group = group
        self._formed = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: run(self._run()), daemon=True)
        self._generations: dict[str, int] = {}
        self._beats = 0
        self._slow = 0
        self._complaints: list[str] = []

    def account(self) -> Account:
        """What it has seen so far."""
        (generation,) = set(self._generations.values())
        return Account(generation, self._beats, self._slow, tuple(self._complaints))

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._formed.wait(_JOIN_S):
            self._stop.set()
            raise AssertionError(f"no group within {_JOIN_S:g} s: {self._complaints}")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        try:
            wires = [await Wire.open(self._port, f"witness-{n}") for n in range(_MEMBERS)]
            ids = [(await wire.ask(self._join(""), 9)).member_id for wire in wires]
            both = zip(wires, ids, strict=True)
            await asyncio.gather(*(self._take_part(wire, member) for wire, member in both))
        except Exception as error:  # noqa: BLE001 - the tests look at it
            self._complaints.append(repr(error))

    async def _take_part(self, wire: Wire, member: str) -> None:
        with contextlib.closing(wire):
            while not self._stop.is_set():
                if member not in self._generations:
                    await self._enter(wire, member)
                await self._beat(wire, member)
                await asyncio.sleep(_HEARTBEAT_S if self._formed.is_set() else 0)

    async def _enter(self, wire: Wire, member: str) -> None:
        joined = await wire.ask(self._join(member), 9)
        plan = tuple(
            m.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"yours")
            for each in joined.members
        )
        request = m.SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=member,
            assignments=plan,
        )
        await wire.ask(request, 3)
        self._generations[member] = joined.generation_id

    async def _beat(self, wire: Wire, member: str) -> None:
        request = m.HeartbeatRequest(
            group_id=self._group, generation_id=self._generations[member], member_id=member
        )
        began = time.monotonic()
        answer = await wire.ask(request, 4)
        if self._formed.is_set():
            self._beats += 1
            self._slow += time.monotonic() - began > _SLOW_S
            if answer.error_code != ErrorCode.NONE:
                self._complaints.append(f"{member} was told {ErrorCode(answer.error_code).name}")
        elif answer.error_code != ErrorCode.NONE:
            del self._generations[member]
        elif len(self._generations) == _MEMBERS and len(set(self._generations.values())) == 1:
            self._formed.set()

    def _join(self, member: str) -> m.JoinGroupRequest:
        protocol = m.JoinGroupRequestProtocol(name="raw", metadata=b"")
        return m.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=member,
            protocol_type="raw",
            protocols=(protocol,),
        )
