"""Faults that wait for the moment in which they matter: when the next generation forms.

Its members have joined, and nothing is assigned yet. Some of these faults are requests that
Coterie's client never sends, so that a foreign client sends them in a member's name.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.network import Network as ClientNetwork
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import MemberPhase, PhaseJoined
from coterie_protocol.messages import (
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
)
from coterie_testing.sim.faults import Fault
from coterie_testing.sim.system import System
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Network, Process

__all__ = ["GenerationFaults"]

#: By then a follower has heard of the generation, and has asked for its assignment.
_SYNCED_S: Final = 0.05

#: A topic that no worker works on.
_UNUSED_TOPIC: Final = "aside"

_TIMEOUT_S: Final = 10.0


class _ForeignClient:
    """Sends one request; the checks of requests and journal look at what comes of it."""

    def __init__(
        self,
        process: Process,
        network: Network,
        chance: Callable[[], float],
        address: NodeAddress,
    ) -> None:
        self._address = address
        self._dial = network.dialler(process)
        self._chance = chance

    async def commit(self, phase: PhaseJoined, member: MemberPhase) -> None:
        """Commit as a member that can't know its assignment yet."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=None
        )
        await self._ask(
            OffsetCommitRequest(
                group_id=phase.group,
                generation_id_or_member_epoch=phase.generation,
                member_id=member.member,
                group_instance_id=member.instance,
                topics=(OffsetCommitRequestTopic(name=_UNUSED_TOPIC, partitions=(partition,)),),
            )
        )

    async def sync(self, phase: PhaseJoined, member: MemberPhase) -> None:
        """Ask for the assignment of a follower, which asks for it at about the same time."""
        await self._ask(
            SyncGroupRequest(
                group_id=phase.group,
                generation_id=phase.generation,
                member_id=member.member,
                group_instance_id=member.instance,
                protocol_type=phase.protocol_type,
                protocol_name=phase.protocol,
                assignments=(),
            )
        )

    async def heartbeat(self, phase: PhaseJoined, member: MemberPhase) -> None:
        """Send a heartbeat in a generation that is over."""
        await self._ask(
            HeartbeatRequest(
                group_id=phase.group,
                generation_id=phase.generation - 1,
                member_id=member.member,
                group_instance_id=member.instance,
            )
        )

    async def _ask(
        self, message: HeartbeatRequest | OffsetCommitRequest | SyncGroupRequest
    ) -> None:
        network = ClientNetwork(str(self._address), dial=self._dial, random=self._chance)
        try:
            await network.request(message, to=self._address, timeout_s=_TIMEOUT_S)
        except CoterieError:
            return  # the coordinator is away
        finally:
            await network.aclose()


_Request: TypeAlias = Callable[
    [_ForeignClient, PhaseJoined, MemberPhase], Coroutine[Any, Any, None]
]


class GenerationFaults:
    """Keeps faults until the next generation forms."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._waiting: list[Callable[[PhaseJoined], None]] = []
        system.on_generation = self._generation_formed

    def schedule(self, fault: Fault) -> str:
        """Keep a fault for the next generation, and say so."""
        said: str = getattr(self, f"_{fault.kind}")(fault)
        return said

    def clear(self) -> None:
        """Drop the faults that still wait."""
        self._waiting.clear()

    def _generation_formed(self, phase: PhaseJoined) -> None:
        waiting, self._waiting = self._waiting, []
        for fault in waiting:
            fault(phase)

    # -- members that stop ---------------------------------------------------------------------

    def _pause_leader(self, fault: Fault) -> str:
        self._waiting.append(lambda phase: self._pause(phase.leader, fault))
        return f"of the next generation, for {fault.seconds:g} s"

    def _pause_follower(self, fault: Fault) -> str:
        self._waiting.append(partial(self._do_to_follower, fault, self._pause))
        return f"of the next generation, for {fault.seconds:g} s"

    def _kill_follower(self, fault: Fault) -> str:
        self._waiting.append(partial(self._do_to_follower, fault, self._kill))
        return "of the next generation"

    def _do_to_follower(
        self, fault: Fault, action: Callable[[str, Fault], None], phase: PhaseJoined
    ) -> None:
        """Act on a follower as soon as it waits for its assignment."""
        if (follower := _follower(phase, fault)) is not None:
            self._system.after(_SYNCED_S, action, follower.member, fault)

    def _pause(self, member_id: str, fault: Fault) -> None:
        worker = self._running(member_id)
        if worker is not None and not worker.process.is_paused:
            self._system.tell("injector", f"pause {worker.name} for {fault.seconds:g} s")
            self._system.pause_worker(worker, fault.seconds)

    def _kill(self, member_id: str, _: Fault) -> None:
        worker = self._running(member_id)
        if worker is not None:
            self._system.tell("injector", f"kill {worker.name}")
            worker.kill()

    def _running(self, member_id: str) -> Worker | None:
        worker = self._system.checker.exemptions.worker(member_id)
        return worker if worker is not None and worker.is_running else None

    # -- requests in members' names ------------------------------------------------------------

    def _stray_commit(self, fault: Fault) -> str:
        self._system.ask_admin(lambda admin: admin.topics.create(_UNUSED_TOPIC, partitions=1))
        return self._stray(fault, _ForeignClient.commit)

    def _stray_sync(self, fault: Fault) -> str:
        return self._stray(fault, _ForeignClient.sync)

    def _stray_heartbeat(self, fault: Fault) -> str:
        return self._stray(fault, _ForeignClient.heartbeat)

    def _stray(self, fault: Fault, request: _Request) -> str:
        self._waiting.append(partial(self._send, fault, request))
        return "in the next generation"

    def _send(self, fault: Fault, request: _Request, phase: PhaseJoined) -> None:
        follower = _follower(phase, fault)
        if follower is None:
            return
        process = Process(self._system.scheduler, "foreign client")
        client = _ForeignClient(
            process,
            self._system.network,
            self._system.scheduler.random.random,
            self._system.coordinator.address,
        )
        self._system.tell("stranger", f"{request.__name__} as {follower.member}")
        process.create_task(request(client, phase, follower))


def _follower(phase: PhaseJoined, fault: Fault) -> MemberPhase | None:
    """A member that has joined and does not lead, chosen by the fault."""
    joined = [each for each in phase.members if each.joined_after_ms is not None]
    followers = [each for each in joined if each.member != phase.leader]
    return followers[fault.target % len(followers)] if followers else None
