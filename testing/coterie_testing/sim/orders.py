"""What simulated administrators order of the group: drains, pins and freezes."""

from __future__ import annotations

from functools import partial
from typing import Any

from coterie_protocol.exceptions import CoterieError
from coterie_protocol.operations import partitions_of
from coterie_server.group import Command
from coterie_server.group.standing_rules import order
from coterie_testing.sim.faults import Fault
from coterie_testing.sim.system import GROUP, System
from coterie_testing.sim.worker import Worker

__all__ = ["Orders"]


class Orders:
    """Has the coordinator told; there is a method for each kind."""

    def __init__(self, system: System) -> None:
        self._system = system

    def inject(self, fault: Fault) -> str | None:
        """Order something, and say what; None if there is no member or coordinator for it."""
        done: str | None = getattr(self, f"_{fault.kind}")(fault)
        return done

    def _drain_worker(self, fault: Fault) -> str | None:
        at_a_time = (None, 0, 1)[fault.amount % 3]
        return self._order(fault, "drain", at_a_time=at_a_time)

    def _pin_partition(self, fault: Fault) -> str | None:
        name = "pin" if fault.amount > 1 else "keep-from"
        partition = _topic(self._system, fault), fault.target // 2
        return self._order(fault, name, partitions=frozenset({partition}))

    def _freeze_group(self, fault: Fault) -> str | None:
        return self._order(fault, "freeze", for_ms=int(fault.seconds * 1000) + 1)

    def _lift_operation(self, fault: Fault) -> str | None:
        node = self._system.coordinator.node
        group = node.group(GROUP) if node is not None else None
        if group is None or not group.operations:
            return None
        found = group.operations[fault.target % len(group.operations)]
        name = {"drain": "undrain", "freeze": "unfreeze"}.get(found.kind, "unpin")
        values = {"member_id": found.member_id, "instance_id": found.instance_id}
        return self._order(fault, name, partitions=partitions_of(found), **values)

    def _order(self, fault: Fault, name: str, **values: Any) -> str | None:  # noqa: ANN401
        """Have the coordinator told what is ordered; it may refuse."""
        coordinator = self._system.coordinator
        node, process, worker = coordinator.node, coordinator.process, _target(self._system, fault)
        if node is None or process is None or process.is_dead or worker is None:
            return None
        if "freeze" not in name and not values.keys() & {"member_id", "instance_id"}:
            instance = worker.options.instance
            member = None if instance is not None else worker.group.member_id
            values |= {"instance_id": instance, "member_id": member}
        command = Command(name=name, **values)

        place = command.instance_id or command.member_id or ""
        self._system.checker.operations.asked(name, place, command.partitions)

        async def ask() -> None:
            try:
                await node.operate(GROUP, partial(order, group_id=GROUP, command=command))
            except CoterieError as refusal:
                self._system.tell("admin", str(refusal))

        process.create_task(ask())
        if "freeze" in name:
            return name
        about = [f"{topic} {number}" for topic, number in sorted(command.partitions)]
        return ", ".join((name, *about, worker.name))


def _target(system: System, fault: Fault) -> Worker | None:
    running = system.running
    return running[fault.target % len(running)] if running else None


def _topic(system: System, fault: Fault) -> str:
    topics = sorted(system.options.topics)
    return topics[fault.target % len(topics)]
