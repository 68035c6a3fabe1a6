"""Scenes and words for the tests of who owns what."""

from __future__ import annotations

from coterie_protocol.consumer import decode_assignment, flatten
from coterie_protocol.journal import OwnershipConflict
from tests.support.group_harness import Client, World, assigned

__all__ = ["away", "bring", "claims", "conflicts", "cooperative", "given", "partitions"]


def partitions(*numbers: int) -> frozenset[tuple[str, int]]:
    """Partitions of the topic."""
    return frozenset(("t", number) for number in numbers)


def given(client: Client) -> tuple[frozenset[tuple[str, int]], int]:
    """What a client was told in its last sync, and the error code in it."""
    assert client.assignment is not None
    assignment = decode_assignment(client.assignment)
    return flatten(assignment.assigned_partitions), assignment.error_code


def cooperative(guard: str) -> tuple[World, Client, Client]:
    """One member that owns all four partitions, and one that has just come, both joined."""
    world = World(ownership_guard=guard, initial_rebalance_delay_ms=0)
    owner, newcomer = world.member("a"), world.member("b")
    world.form(owner)
    claims(owner, 0, 1, 2, 3)
    newcomer.join()
    owner.join()
    return world, owner, newcomer


def claims(client: Client, *numbers: int) -> None:
    """Let a client say in its next join that it owns these, as of its generation."""
    client.owned, client.owned_generation = partitions(*numbers), client.generation


def bring(leader: Client, plan: dict[Client, tuple[int, ...]]) -> None:
    """Let the leader bring an assignment and the others ask for it."""
    leader.sync({client: assigned("t", *numbers) for client, numbers in plan.items()})
    for client in plan:
        if client is not leader:
            client.sync()


def conflicts(world: World) -> list[tuple[int, str, str, bool]]:
    """Partition, holder, who was to get it, and whether it was withheld."""
    return [(c.partition, c.holder, c.given_to, c.withheld) for c in world.seen(OwnershipConflict)]


def away(guard: str) -> tuple[World, Client, Client]:
    """A leader, and a static member that is away in the generation that has just begun."""
    world = World(ownership_guard=guard)
    leader = world.member("a", rebalance_ms=3_000, session_ms=60_000)
    absent = world.member("b", static="i1", rebalance_ms=3_000, session_ms=60_000)
    world.form(leader, absent)
    leader.join()
    world.sleep(3_000)
    return world, leader, absent
