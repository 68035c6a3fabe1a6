"""What a member owns: taking it over, letting go of it, losing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie_client.membership.actions import Abandon, Assign, Lose, Revoke
from coterie_client.membership.events import (
    Assigned,
    PartitionsLost,
    PartitionsReleased,
    RevocationOverran,
    RevocationStarted,
)
from coterie_client.membership.ground import Ground
from coterie_client.membership.offsets import Commits
from coterie_client.wire.addresses import TopicPartition

__all__ = ["Holdings", "token_of"]

#: Within a generation, tokens tell tenths of a second apart: 32 bits of them last for 13 years.
_TICK_MS: Final = 100
_TICK_BITS: Final = 32


def token_of(generation: int, wall_ms: int) -> int:
    """A makeshift fencing token, where the coordinator issues none; it fits 64 bits.

    A partition goes to a new owner in a later generation, so the generation decides.  The one
    exception is a static member that restarts: it gets what it had in the same generation, and
    there the time of day has to tell it from its former self, as well as it can.
    """
    return (generation << _TICK_BITS) | ((wall_ms // _TICK_MS) & ((1 << _TICK_BITS) - 1))


class Holdings:
    """Moves partitions in and out of what is owned, and tells the shell."""

    def __init__(self, ground: Ground, commits: Commits) -> None:
        self._post = ground.post
        self._standing = ground.standing
        self._wall_ms = ground.sources.wall_ms
        self._commits = commits
        #: The newest token that each partition ever had here.
        self._newest: dict[TopicPartition, int] = {}
        self._began_ms = 0
        self._deadline_ms: int | None = None
        self._released: set[TopicPartition] = set()

    @property
    def deadline_ms(self) -> int | None:
        """When what is being let go of is given up, finished or not."""
        return self._deadline_ms if self._standing.releasing else None

    def take(
        self, partitions: Iterable[TopicPartition], generation: int, issued: int | None
    ) -> None:
        """Own these from now on, under the token that the coordinator issued, if it did."""
        if issued is not None:
            taken = dict.fromkeys(sorted(partitions), issued)
        else:
            # Two ownerships of one process never look the same, whatever its clock says.
            made = token_of(generation, self._wall_ms())
            taken = {each: max(made, self._newest.get(each, -1) + 1) for each in sorted(partitions)}
        self._newest |= taken
        self._own(taken, generation)

    def take_back(self, tokens: Mapping[TopicPartition, int], generation: int) -> None:
        """Own these again under the tokens that they had: nobody else has had them since."""
        self._own(dict(sorted(tokens.items())), generation)

    def _own(self, tokens: dict[TopicPartition, int], generation: int) -> None:
        if tokens:
            self._standing.owned |= tokens
            self._post.do(Assign(tokens, generation))
            self._post.report(Assigned(partitions=tuple(tokens)))

    def revoke(
        self, partitions: Iterable[TopicPartition], reason: str, deadline_ms: int, now_ms: int
    ) -> None:
        """Have work on these finished; they stay owned until it is, or until the deadline."""
        standing = self._standing
        mine = frozenset(partitions) & standing.owned.keys()
        if not mine:
            return
        self._begin(deadline_ms, now_ms)
        self._deadline_ms = min(self._deadline_ms or deadline_ms, deadline_ms)
        fresh = mine - standing.releasing
        if not fresh:
            return
        standing.finishing |= fresh
        self._post.do(Revoke(fresh, self._deadline_ms))
        self._post.report(RevocationStarted(partitions=tuple(sorted(fresh)), reason=reason))

    def give_up(self, partitions: Iterable[TopicPartition], deadline_ms: int, now_ms: int) -> bool:
        """Let go of these, whose work has ended, and refuse to have them back; whether any are."""
        standing = self._standing
        ended = frozenset(partitions) & standing.owned.keys() - standing.draining
        if not ended:
            return False
        self._begin(deadline_ms, now_ms)
        standing.finishing -= ended
        standing.draining |= ended
        standing.refused |= ended
        return True

    def _begin(self, deadline_ms: int, now_ms: int) -> None:
        """Reckon from now, unless something is being let go of already."""
        if not self._standing.releasing:
            self._began_ms, self._deadline_ms, self._released = now_ms, deadline_ms, set()

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """Work on these has ended; what it committed may still be on its way."""
        ended = frozenset(partitions) & self._standing.finishing
        self._standing.finishing -= ended
        self._standing.draining |= ended

    def advance(self, now_ms: int) -> None:
        """Give up what has been let go of, and what took too long."""
        standing = self._standing
        done = {each for each in standing.draining if not self._commits.is_pending(each)}
        standing.forget(done)
        self._released |= done
        if self._released and not standing.releasing:
            took_ms = now_ms - self._began_ms
            released = tuple(sorted(self._released))
            self._post.report(PartitionsReleased(partitions=released, took_ms=took_ms))
            self._released = set()
        if standing.releasing and self._deadline_ms is not None and now_ms >= self._deadline_ms:
            self._overrun(now_ms)

    def _overrun(self, now_ms: int) -> None:
        late = frozenset(self._standing.releasing)
        self._standing.forget(late)
        self._commits.lose(late)
        self._post.do(Abandon(late))
        after_ms = now_ms - self._began_ms
        self._post.report(RevocationOverran(partitions=tuple(sorted(late)), after_ms=after_ms))

    def lose(self, reason: str, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Own these no longer, from this moment; everything, if it is not said what."""
        owned = self._standing.owned
        lost = frozenset(owned if partitions is None else owned.keys() & set(partitions))
        if not lost:
            return
        self._standing.forget(lost)
        self._commits.lose(lost)
        self._post.do(Lose(lost, reason))
        self._post.report(PartitionsLost(partitions=tuple(sorted(lost)), reason=reason))
