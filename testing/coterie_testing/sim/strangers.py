"""A client of another make, which asks in a member's name what Coterie's never does."""

from __future__ import annotations

from collections.abc import Callable

from coterie_client.wire.network import Network as Wires
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import MemberPhase, PhaseJoined
from coterie_protocol.messages import (
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
)
from coterie_testing.sim.coordinator import ADDRESS
from coterie_testing.virtual import Network, Process

__all__ = ["ASIDE", "Stranger"]

#: A topic that no worker works on.
ASIDE = "aside"

_TIMEOUT_S = 10.0


class Stranger:
    """Asks once; what it is answered is looked at by those who look at everything."""

    def __init__(self, process: Process, network: Network, chance: Callable[[], float]) -> None:
        self._dial = network.dialler(process)
        self._chance = chance

    async def commit(self, phase: PhaseJoined, member: MemberPhase) -> None:
        """Commit as a member that does not know yet what it is given."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=None
        )
        await self._ask(
            OffsetCommitRequest(
                group_id=phase.group,
                generation_id_or_member_epoch=phase.generation,
                member_id=member.member,
                group_instance_id=member.instance,
                topics=(OffsetCommitRequestTopic(name=ASIDE, partitions=(partition,)),),
            )
        )

    async def sync(self, phase: PhaseJoined, member: MemberPhase) -> None:
        """Ask what a follower is given, which asks so itself at about the same time."""
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
        """Give a sign of life in a generation that is over."""
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
        wires = Wires(str(ADDRESS), dial=self._dial, random=self._chance)
        try:
            await wires.request(message, to=ADDRESS, timeout_s=_TIMEOUT_S)
        except CoterieError:
            return  # the coordinator is away
        finally:
            await wires.aclose()
