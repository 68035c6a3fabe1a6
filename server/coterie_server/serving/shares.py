"""Which node should have which shards.

Each node works this out for itself, from what all of them see in the store.  Two that looked at
different moments may disagree for a while, and then want the same shard: the store gives it to one
of them, and the other one finds out when it looks again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

__all__ = ["Move", "Scene", "fair_shares", "given_at_once", "next_move"]

#: A node gives away this part of all shards at a time at most, so that most of them are served.
_GIVEN_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class Scene:
    """What a node sees."""

    #: All shards that there are.
    shards: Sequence[int]
    #: The node itself.
    me: str
    #: The shards that it has.
    mine: Collection[int]
    #: Who has each of the others, as far as that is valid.
    others: Mapping[int, str]
    #: The nodes that share the shards, this one included.
    present: Collection[str]
    #: Those of them that have been there for long enough to be given what others have.
    settled: Collection[str]
    #: The shards whose leases have run out, among those that no node has.
    expired: Collection[int] = ()
    #: Whether a shard is not to be given away yet.
    is_spared: Callable[[int], bool] = lambda _shard: False
    #: Over how many files the store spreads the shards, by their numbers.
    files: int = 1

    def home(self, shard: int) -> str | None:
        """The node that had best have a shard; None if it makes no difference.

        Nodes that write to the same file wait for each other, so each should have files of its own.
        """
        if self.files == 1 or shard < 0:
            return None
        nodes = sorted(self.present)
        return nodes[shard % self.files % len(nodes)]


@dataclass(frozen=True, slots=True)
class Move:
    """What a node should do next."""

    claim: tuple[int, ...] = ()
    give: tuple[int, ...] = ()
    #: How many of those that it has others are there to be given, now or later.
    surplus: int = 0

    def __bool__(self) -> bool:
        return bool(self.claim or self.give)


def fair_shares(shards: int, held: Mapping[str, int]) -> dict[str, int]:
    """How many shards each node should have, by how many it has: within one of each other.

    Where they can't be equal, those that have most keep most, so that nothing moves for that.
    """
    each, more = divmod(shards, len(held))
    ranked = sorted(held, key=lambda node: (-held[node], node))
    return {node: each + (place < more) for place, node in enumerate(ranked)}


def given_at_once(shards: Sequence[int]) -> int:
    """How many of all shards a node gives away at a time at most."""
    return max(len(shards) // _GIVEN_AT_ONCE, 1)


def next_move(scene: Scene, give_max: int) -> Move:
    """The shards that a node should claim and give now; it gives so many at a time at most."""
    counted = Counter(scene.others.values())
    held = {node: counted[node] for node in scene.present} | {scene.me: len(scene.mine)}
    fair = fair_shares(len(scene.shards), held)
    wanted = sum(max(fair[node] - held[node], 0) for node in scene.settled if node != scene.me)
    surplus = max(min(held[scene.me] - fair[scene.me], wanted), 0)
    # The last ones first, so that the catalogue, which comes first, stays where it is.
    ranked = sorted(scene.mine, key=lambda shard: (scene.home(shard) == scene.me, -shard))
    unspared = (shard for shard in ranked if not scene.is_spared(shard))
    given = tuple(islice(unspared, min(surplus, give_max)))
    return Move(_claims(scene, held), given, surplus)


def _claims(scene: Scene, held: Mapping[str, int]) -> tuple[int, ...]:
    """Divide the free shards among all who may claim them, and return those of this node.

    What was given up, any node may claim at once.  What a dead node had, one that has just come
    leaves alone until it has seen for a whole lease that it is not renewed, while the others have
    seen that already.  So it is theirs, or nobody would serve it meanwhile; the newcomer is given
    its share later.  Without any that has been there for so long, all wait alike.
    """
    free = [each for each in scene.shards if each not in scene.others and each not in scene.mine]
    of_the_dead = [shard for shard in free if shard in scene.expired]
    given_up = [shard for shard in free if shard not in scene.expired]
    claims = _divided(scene, given_up, held, scene.present)
    held = {node: held[node] + len(claims.get(node, ())) for node in held}
    inherited = _divided(scene, of_the_dead, held, scene.settled or scene.present)
    return tuple(sorted((*claims.get(scene.me, ()), *inherited.get(scene.me, ()))))


def _divided(
    scene: Scene, free: Collection[int], held: Mapping[str, int], among: Collection[str]
) -> dict[str, list[int]]:
    """Divide free shards among nodes, those that have least first; return what each may claim."""
    elsewhere = sum(held[node] for node in held if node not in among)
    fair = fair_shares(len(scene.shards) - elsewhere, {node: held[node] for node in among})
    left = {node: max(fair[node] - held[node], 0) for node in among}
    divided: dict[str, list[int]] = {node: [] for node in among}

    def assign(shard: int, node: str) -> None:
        left[node] -= 1
        divided[node].append(shard)

    away = []
    for shard in free:
        node = scene.home(shard)
        if node is not None and left.get(node):
            assign(shard, node)
        else:
            away.append(shard)
    for shard in sorted(away):
        node = max(sorted(left), key=left.__getitem__)
        if not left[node]:
            break
        assign(shard, node)
    return divided
