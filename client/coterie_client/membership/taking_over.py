"""Putting an assignment in place: taking over what is new, letting go of what went away."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from coterie_assignors import Assignor
from coterie_client.membership.events import AssignmentReceived
from coterie_client.membership.ground import Ground
from coterie_client.membership.holdings import Holdings
from coterie_client.membership.patience import Patience
from coterie_client.membership.standing import Phase
from coterie_client.membership.topic_watch import TopicWatch
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.consumer import NEEDS_REJOIN, Assignment, flatten

__all__ = ["Takeover"]


class Takeover:
    """What KIP-429 has a consumer do with the answer to its sync."""

    def __init__(
        self, ground: Ground, *, patience: Patience, topics: TopicWatch, holdings: Holdings
    ) -> None:
        self._post = ground.post
        self._standing = ground.standing
        self._fail = ground.fail
        self._patience = patience
        self._topics = topics
        self._holdings = holdings

    def accept(
        self,
        assignor: Assignor,
        assignment: Assignment,
        refused: AbstractSet[TopicPartition],
        *,
        token: int | None,
        began_ms: int,
        now_ms: int,
    ) -> None:
        """Put it in place; `refused` is what the join said that we can't work on.

        `token` is the fencing token that the coordinator issued, if it did.
        """
        standing = self._standing
        standing.phase = Phase.STABLE
        standing.refused -= refused
        assigned = flatten(assignment.assigned_partitions)
        generation = standing.identity.generation
        try:
            assignor.on_assignment(assignment.assigned_partitions, generation, assignment.user_data)
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail(error)
            return
        # What is not wanted any more is not begun with: to say so, a join is planned already.
        welcome = {each for each in assigned - standing.refused if each[0] in standing.wanted}
        added = welcome - standing.owned.keys()
        revoked = standing.owned.keys() - assigned - standing.releasing
        needs_rejoin = assignment.error_code == NEEDS_REJOIN
        self._post.report(
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
        if not standing.is_closing:
            self._holdings.take(added, generation, token)
        deadline_ms = self._patience.release_deadline_ms(now_ms)
        self._holdings.revoke(revoked, "assigned elsewhere", deadline_ms, now_ms)
        if not standing.is_closing:
            self._topics.hear_of(assigned, now_ms)
        if revoked:
            standing.want_rejoin("revoked partitions that others wait for")
        elif needs_rejoin:
            standing.want_rejoin("the leader needs everybody to rejoin")
