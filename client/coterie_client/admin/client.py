"""The administrator's client."""

from __future__ import annotations

import random as _random
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Self

from coterie_client import checks
from coterie_client.admin.caller import Caller, Timing
from coterie_client.wire.addresses import Bootstrap
from coterie_client.wire.channel import ConnectionLimits, Counters
from coterie_client.wire.dialling import Dial
from coterie_client.wire.network import Network
from coterie_client.wire.security import PLAINTEXT, Security

if TYPE_CHECKING:
    from coterie_client.admin.acls import Acls
    from coterie_client.admin.groups import Groups, Members
    from coterie_client.admin.offsets import Offsets
    from coterie_client.admin.topics import Topics
    from coterie_client.admin.users import Users

__all__ = ["Admin"]


class Admin:
    """Manages topics, groups, members, offsets, ACLs and users, of Coterie or of a Kafka cluster.

    ::

        async with Admin("localhost:9092") as admin:
            await admin.topics.create("orders", partitions=12)
            print(await admin.groups.describe("billing"))

    Each call is sent to the right node, and retried after temporary errors according to `timing`;
    when the time is up, the last error is raised. Calls may overlap.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        security: Security = PLAINTEXT,
        client_id: str | None = "coterie-admin",
        timing: Timing | None = None,
        limits: ConnectionLimits | None = None,
        dial: Dial | None = None,
        random: Callable[[], float] = _random.random,
    ) -> None:
        if timing is not None:
            checks.instance_of("timing", Timing, "a Timing", timing)
        self._network = Network(
            bootstrap,
            security=security,
            client_id=client_id,
            limits=limits,
            dial=dial,
            random=random,
        )
        self._caller = Caller(self._network, timing or Timing(), random)

    # Each is imported when it is first used: most programs use one or two.

    @cached_property
    def topics(self) -> Topics:
        """Operations on topics."""
        from coterie_client.admin.topics import Topics  # noqa: PLC0415  # as above

        return Topics(self._caller)

    @cached_property
    def groups(self) -> Groups:
        """Operations on groups."""
        from coterie_client.admin.groups import Groups  # noqa: PLC0415  # as above

        return Groups(self._caller)

    @cached_property
    def members(self) -> Members:
        """Operations on the members of a group."""
        from coterie_client.admin.groups import Members  # noqa: PLC0415  # as above

        return Members(self._caller, self.groups)

    @cached_property
    def offsets(self) -> Offsets:
        """Operations on offsets."""
        from coterie_client.admin.offsets import Offsets  # noqa: PLC0415  # as above

        return Offsets(self._caller)

    @cached_property
    def acls(self) -> Acls:
        """Operations on ACLs."""
        from coterie_client.admin.acls import Acls  # noqa: PLC0415  # as above

        return Acls(self._caller)

    @cached_property
    def users(self) -> Users:
        """Operations on users."""
        from coterie_client.admin.users import Users  # noqa: PLC0415  # as above

        return Users(self._caller)

    @property
    def counters(self) -> Counters:
        """What has happened on the connections so far."""
        return self._network.counters

    async def aclose(self) -> None:
        """Close all connections, failing pending requests. Idempotent."""
        self._caller.home.require()
        await self._network.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
