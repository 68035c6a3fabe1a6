"""What a member owns: taking partitions over, letting go of them, losing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from coterie_client.membership.actions import Abandon, Assign, Lose, Revoke
from coterie_client.membership.context import Context
from coterie_client.membership.events import (
    AssignmentReceived,
    CommitsUnconfirmed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsReleased,
    RevocationOverran,
    RevocationStarted,
)
from coterie_client.membership.fetches import Fetches
from coterie_client.membership.offsets import Commits
from coterie_client.wire.addresses import TopicPartition

__all__ = ["Ownership", "token_of"]

#: Within a generation, tokens tell tenths of a second apart: 32 bits of them last for 13 years.
_TICK_MS: Final = 100
_TICK_BITS: Final = 32


def token_of(generation: int, wall_ms: int) -> int:
    """A makeshift fencing token for coordinators that issue none; it fits 64 bits.

    A partition goes to a new owner in a later generation, so the generation decides.  The one
    exception is a static member that restarts: it gets what it had in the same generation, and
    there the time of day has to tell it from its former self, as well as it can.
    """
    return (generation << _TICK_BITS) | ((wall_ms // _TICK_MS) & ((1 << _TICK_BITS) - 1))


class Ownership:
    """Changes what is owned, and has the work on it started and ended.

    A partition that is let go of is first finishing, until its work has ended (`released`), then
    draining, until its last commits are stored, and owned all the while.
    """

    def __init__(self, context: Context, commits: Commits, fetches: Fetches) -> None:
        self._outbox = context.outbox
        self._state = context.state
        self._loads = context.loads
        self._wall_ms = context.sources.wall_ms
        self._commits, self._fetches = commits, fetches
        #: The newest token that each partition ever had here.
        self._newest: dict[TopicPartition, int] = {}
        self._began_ms = 0
        self._deadline_ms: int | None = None
        self._released: set[TopicPartition] = set()
        #: What was lost with the lease, with its tokens.
        self._suspended: dict[TopicPartition, int] = {}

    @property
    def deadline_ms(self) -> int | None:
        """When what is being let go of is given up, finished or not."""
        return self._deadline_ms if self._state.releasing else None

    # -- taking over ---------------------------------------------------------------------------

    def put_in_place(
        self,
        assigned: AbstractSet[TopicPartition],
        token: int | None,
        *,
        needs_rejoin: bool,
        began_ms: int,
        release_by_ms: int,
        now_ms: int,
    ) -> None:
        """Take over what is new in an assignment, and let go of what is not in it (KIP-429).

        `token` is the fencing token that the coordinator issued with it, if any, `needs_rejoin`
        whether the leader wants all members to join again, and `began_ms` when the member began to.
        """
        state = self._state
        generation = state.identity.generation
        self._loads.assigned(assigned, now_ms)
        # Work does not begin on topics that were unsubscribed meanwhile; a join is due to say so.
        welcome = {each for each in assigned - state.refused if each[0] in state.subscribed}
        added = welcome - state.owned.keys()
        revoked = state.owned.keys() - assigned - state.releasing
        self._outbox.report(
            AssignmentReceived(
                generation=generation,
                owned=len(assigned),
                added=tuple(sorted(added)),
                revoked=tuple(sorted(revoked)),
                needs_rejoin=needs_rejoin,
                took_ms=now_ms - began_ms,
            )
        )
        # First what is new, which need not wait for what ends.
        if not state.is_closing:
            self.take(added, generation, token)
        self.revoke(revoked, "assigned elsewhere", release_by_ms, now_ms)
        if revoked:
            state.request_rejoin("revoked partitions that others wait for")
        elif needs_rejoin:
            state.request_rejoin("the leader needs everybody to rejoin")

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
        self._own(taken)

    def _own(self, tokens: dict[TopicPartition, int]) -> None:
        if tokens:
            self._state.owned |= tokens
            self._outbox.add(Assign(tokens, self._state.identity.generation))
            self._outbox.report(PartitionsAssigned(partitions=tuple(tokens)))

    # -- letting go ----------------------------------------------------------------------------

    def revoke(
        self, partitions: Iterable[TopicPartition], reason: str, deadline_ms: int, now_ms: int
    ) -> None:
        """Have the work on these ended; they stay owned until it is, or until the deadline."""
        state = self._state
        mine = frozenset(partitions) & state.owned.keys()
        if not mine:
            return
        self._begin(deadline_ms, now_ms)
        self._deadline_ms = min(self._deadline_ms or deadline_ms, deadline_ms)
        fresh = mine - state.releasing
        if not fresh:
            return
        state.finishing |= fresh
        self._outbox.add(Revoke(fresh, self._deadline_ms))
        self._outbox.report(RevocationStarted(partitions=tuple(sorted(fresh)), reason=reason))

    def give_up(self, partitions: Iterable[TopicPartition], deadline_ms: int, now_ms: int) -> bool:
        """Let go of these, whose work has ended, and refuse to have them back.

        Returns whether any of them was owned.
        """
        state = self._state
        ended = frozenset(partitions) & state.owned.keys() - state.draining
        if not ended:
            return False
        self._begin(deadline_ms, now_ms)
        state.finishing -= ended
        state.draining |= ended
        state.refused |= ended
        return True

    def _begin(self, deadline_ms: int, now_ms: int) -> None:
        """Reckon from now, unless something is being let go of already."""
        if not self._state.releasing:
            self._began_ms, self._deadline_ms, self._released = now_ms, deadline_ms, set()

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the work on these has ended; its commits may still be on their way."""
        ended = frozenset(partitions) & self._state.finishing
        self._state.finishing -= ended
        self._state.draining |= ended

    def advance(self, now_ms: int) -> None:
        """Disown what has been let go of, and what took too long."""
        state = self._state
        done = {each for each in state.draining if not self._commits.is_pending(each)}
        self._disown(done)
        self._released |= done
        if self._released and not state.releasing:
            took_ms = now_ms - self._began_ms
            released = tuple(sorted(self._released))
            self._outbox.report(PartitionsReleased(partitions=released, took_ms=took_ms))
            self._released = set()
        if state.releasing and self._deadline_ms is not None and now_ms >= self._deadline_ms:
            self._overrun(now_ms)

    def _overrun(self, now_ms: int) -> None:
        """Let go of everything that is left, whose work or whose last commits took too long."""
        late, unconfirmed = frozenset(self._state.finishing), tuple(sorted(self._state.draining))
        self._disown(self._state.releasing)
        after_ms = now_ms - self._began_ms
        if unconfirmed:
            self._outbox.report(CommitsUnconfirmed(partitions=unconfirmed, after_ms=after_ms))
        if late:
            self._outbox.add(Abandon(late))
            partitions = tuple(sorted(late))
            self._outbox.report(RevocationOverran(partitions=partitions, after_ms=after_ms))

    def _disown(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Own these no longer; what is still asked in their name fails."""
        self._state.disown(partitions)
        self._commits.lose(partitions)
        self._fetches.lose(partitions)

    # -- losing --------------------------------------------------------------------------------

    def lose(self, reason: str, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Own these no longer, from this moment; without `partitions`, nothing at all."""
        owned = self._state.owned
        lost = frozenset(owned if partitions is None else owned.keys() & set(partitions))
        if not lost:
            return
        self._disown(lost)
        self._outbox.add(Lose(lost, reason))
        self._outbox.report(PartitionsLost(partitions=tuple(sorted(lost)), reason=reason))

    def suspend(self, reason: str) -> None:
        """Lose everything, and remember what was not being let go of, for `resume`."""
        state = self._state
        self._suspended = {p: t for p, t in state.owned.items() if p not in state.releasing}
        self.lose(reason)

    def resume(self) -> None:
        """Own again what was suspended, under the same tokens: no other member had it since."""
        state, suspended = self._state, self._suspended
        self._suspended = {}
        if not state.is_closing:
            wanted = {
                partition: token
                for partition, token in sorted(suspended.items())
                if partition not in state.refused and partition[0] in state.subscribed
            }
            self._own(wanted)

    def forget_suspended(self, is_gone: Callable[[TopicPartition], bool] = lambda _: True) -> None:
        """Do not resume these; without a condition, nothing at all."""
        self._suspended = {p: t for p, t in self._suspended.items() if not is_gone(p)}
