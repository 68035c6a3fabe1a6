"""What becomes of an assignment: it is read when it comes, and put in place when it is proven."""

from __future__ import annotations

from dataclasses import dataclass

from coterie_assignors import Assignor
from coterie_client.membership.consumer_protocol import read_assignment
from coterie_client.membership.context import Context
from coterie_client.membership.ownership import Ownership
from coterie_client.membership.standbys import Standbys
from coterie_client.membership.topics import Topics
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.consumer import NEEDS_REJOIN, Assignment, flatten
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages.sync_group import SyncGroupResponse
from coterie_protocol.streams import split_user_data

__all__ = ["Assigning", "Round"]


@dataclass(frozen=True, slots=True)
class Round:
    """The round of joining at whose end an assignment came."""

    assignor: Assignor
    #: What the member said when it joined that it can't work on.
    refused: frozenset[TopicPartition]
    #: What it said that it kept.
    claimed: frozenset[TopicPartition]
    began_ms: int
    #: By when what is let go of has to be gone.
    release_by_ms: int


class Assigning:
    """Holds an assignment until the member is known to be counted on, then puts it in place."""

    def __init__(
        self, context: Context, *, topics: Topics, ownership: Ownership, standbys: Standbys
    ) -> None:
        self._state = context.state
        self._fail = context.fail
        self._topics = topics
        self._ownership = ownership
        self._standbys = standbys
        #: What the member was assigned, until it is put in place.
        self._assignment: Assignment | None = None
        #: The fencing token that came with it, if the coordinator issues any.
        self._token: int | None = None

    @property
    def is_due(self) -> bool:
        """Whether an assignment waits to be put in place."""
        return self._assignment is not None

    def forget(self) -> None:
        """Drop what was received."""
        self._assignment = None

    def receive(self, answer: SyncGroupResponse) -> bool:
        """Take what the member is assigned; whether it could be read."""
        try:
            self._assignment = read_assignment(answer.assignment)
        except ProtocolError as error:
            self._fail(error)
            return False
        self._token = answer.fencing_token if answer.fencing_token >= 0 else None
        self._state.numbers_commits = self._token is not None
        return True

    def put_in_place(self, this: Round, now_ms: int) -> None:
        """Work on what was assigned, and on nothing else; keep up to date what is said besides."""
        state, assignment = self._state, self._assignment
        assert assignment is not None
        self._assignment = None
        state.refused -= this.refused
        partitions, generation = assignment.assigned_partitions, state.identity.generation
        own, block = split_user_data(assignment.user_data)
        try:
            this.assignor.on_assignment(partitions, generation, own)
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail(error)
            return
        assigned = flatten(partitions)
        self._standbys.take_over(block, assigned, now_ms)
        self._ownership.put_in_place(
            assigned,
            self._token,
            needs_rejoin=assignment.error_code == NEEDS_REJOIN,
            began_ms=this.began_ms,
            release_by_ms=this.release_by_ms,
            now_ms=now_ms,
        )
        # As if it had revoked it, where it has lost since what others are to get.
        if any(map(self._topics.has, this.claimed - assigned - state.owned.keys())):
            state.request_rejoin("lost partitions that others wait for")
        self._standbys.settle_version()
        if not state.is_closing:
            self._topics.learn_of(assigned, now_ms)
