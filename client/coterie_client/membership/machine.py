"""`Membership`: a member of a group, as a machine without I/O."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final

from coterie_assignors import Assignor
from coterie_client.membership.actions import Action, Failure, Position, Role
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.context import Context, Identity
from coterie_client.membership.coordinator import CoordinatorLookup, Reaction, reaction_to
from coterie_client.membership.fetches import Fetches
from coterie_client.membership.heartbeats import Heartbeats
from coterie_client.membership.imbalance import Imbalance
from coterie_client.membership.joining import Joining
from coterie_client.membership.leaving import Leaving
from coterie_client.membership.loads import Loads
from coterie_client.membership.offsets import Commits
from coterie_client.membership.ownership import Ownership
from coterie_client.membership.phases import REBALANCING, Phase
from coterie_client.membership.standbys import Held, Standbys
from coterie_client.membership.topics import Topics
from coterie_client.wire.addresses import NodeAddress, TopicPartition
from coterie_protocol.errors import error_for
from coterie_protocol.member_data import MemberData

__all__ = ["Membership"]

_GONE: Final = "the topic does not have it any more"


class Membership:
    """One member of one group (KIP-429's consumer, with the draft's NEEDS_REJOIN).

    It reads no clock, draws no random numbers and awaits nothing.  Its driver calls a method
    whenever something happens, does all that the returned actions say, in their order, and calls
    `fire` when `next_deadline` has come.
    """

    def __init__(
        self, config: MembershipConfig, assignors: Sequence[Assignor], sources: Sources
    ) -> None:
        loads = self._loads = Loads(assignors)
        context = Context(
            config, sources, self._react, self._fail, self._fail_in_order, loads=loads
        )
        self._config = config
        self._state, self._outbox = context.state, context.outbox
        #: Until when partitions that were gone are looked for before they are lost once more.
        self._missed_until_ms: dict[TopicPartition, int] = {}
        self._lookup = CoordinatorLookup(context)
        self._heartbeats = Heartbeats(context, self._lookup)
        self._topics = Topics(context, self._topics_changed)
        self._commits = Commits(context, self._lookup, self._partitions_missed)
        self._fetches = Fetches(context, self._lookup)
        self._ownership = Ownership(context, self._commits, self._fetches)
        self._standbys = Standbys(context)
        self._imbalance = Imbalance(context)
        self._joining = Joining(
            context,
            assignors,
            lookup=self._lookup,
            heartbeats=self._heartbeats,
            topics=self._topics,
            ownership=self._ownership,
            standbys=self._standbys,
            imbalance=self._imbalance,
        )
        self._leaving = Leaving(
            context,
            lookup=self._lookup,
            heartbeats=self._heartbeats,
            ownership=self._ownership,
            standbys=self._standbys,
            fetches=self._fetches,
            abort_join=self._joining.abort,
        )

    # -- looking -------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """What the member is doing."""
        return self._state.phase

    @property
    def identity(self) -> Identity:
        """What the coordinator knows the member by."""
        return self._state.identity

    @property
    def owned(self) -> Mapping[TopicPartition, int]:
        """What the member owns, with its fencing tokens; what is being let go of still counts."""
        return self._state.owned

    @property
    def standbys(self) -> Mapping[TopicPartition, Role]:
        """What the member keeps up to date while another one works on it, and why."""
        return self._standbys.roles

    @property
    def is_leader(self) -> bool:
        """Whether the member decides who is to own what."""
        return self._state.is_leader

    @property
    def is_settled(self) -> bool:
        """Whether the member is at work, and neither lets go of anything nor wants to join."""
        state = self._state
        is_calm = state.rejoin_reason is None and not state.releasing
        return state.phase is Phase.STABLE and is_calm

    @property
    def coordinator(self) -> NodeAddress | None:
        """The node that coordinates the group, if it is known."""
        return self._lookup.address

    def next_deadline(self) -> int | None:
        """When to call `fire`, if nothing happens until then."""
        if self._state.phase is Phase.OVER:
            return None
        parts = (
            self._lookup,
            self._heartbeats,
            self._topics,
            self._standbys,
            self._imbalance,
            self._joining,
            self._ownership,
            self._commits,
            self._fetches,
            self._leaving,
        )
        deadlines = [part.deadline_ms for part in parts]
        return min((each for each in deadlines if each is not None), default=None)

    # -- what the user wants -------------------------------------------------------------------

    def start(self, topics: Collection[str], now_ms: int) -> list[Action]:
        """Join the group."""
        self._state.request_rejoin("first join")
        return self._subscribe(topics, now_ms)

    def subscribe(self, topics: Collection[str], now_ms: int) -> list[Action]:
        """Replace the subscription."""
        if frozenset(topics) != self._state.subscribed:
            self._state.request_rejoin("the subscription changed")
        return self._subscribe(topics, now_ms)

    def _subscribe(self, topics: Collection[str], now_ms: int) -> list[Action]:
        self._state.subscribed = frozenset(topics)
        self._standbys.withdraw(lambda partition: partition[0] not in self._state.subscribed)
        self._topics.watch(self._state.subscribed | self._joining.led_topics, now_ms)
        return self._advance(now_ms)

    def rejoin(self, reason: str, now_ms: int) -> list[Action]:
        """Make the group rebalance, because the user says so."""
        self._state.request_rejoin(reason)
        return self._advance(now_ms)

    def tell(self, told: MemberData | None) -> bool:
        """Tell this of the member whenever it joins; whether that is something new."""
        before, self._state.told = self._state.told, told
        return told != before

    def give_up(self, partitions: Collection[TopicPartition], now_ms: int) -> list[Action]:
        """Hand these, whose work has ended, to other members, as they can't be worked on here.

        A leader of Coterie's gives them to another member, if there is one; any other leader may
        give them back.
        """
        deadline_ms = now_ms + self._config.release_ms
        if self._ownership.give_up(partitions, deadline_ms, now_ms):
            names = ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions))
            self._state.request_rejoin(f"gave up {names}")
        return self._advance(now_ms)

    def keep_warm(self, held: Held, now_ms: int) -> list[Action]:
        """Hold state from now on, so that the leader has this member warm up before it moves any.

        `held` is asked at each join for the lags of what no task tells of.
        """
        self._standbys.keep_warm(held)
        return self._advance(now_ms)

    def note_lag(self, partition: TopicPartition, lag: int) -> bool:
        """Note how far behind a partition's state is; negative if that is not known any more.

        Returns whether to call `fire`, because a warm-up is ready.
        """
        return self._standbys.note_lag(partition, lag)

    def note_failure(self, partition: TopicPartition) -> None:
        """Note that the restore of a partition failed, and is to be started again."""
        self._standbys.note_failure(partition)

    def commit(
        self, key: Hashable, partition: TopicPartition, token: int, position: Position
    ) -> None:
        """Commit an offset; it is sent by the next call that takes the time.

        A `Committed` with the same key tells the outcome.
        """
        self._commits.add(key, partition, token, position)

    def fetch(self, key: Hashable, partition: TopicPartition, token: int | None) -> None:
        """Fetch the committed offset; it is asked for by the next call that takes the time.

        A `Fetched` with the same key brings it.  With a token, that of an ownership, it fails when
        that is over.
        """
        self._fetches.add(key, partition, token)

    def load(self, partition: TopicPartition, value: float, now_ms: int) -> None:
        """Note the load of a partition; the leader is told with the next join."""
        self._loads.add(partition, value, now_ms)

    def close(
        self, now_ms: int, *, leave: bool, within_ms: int, reason: str = "closed"
    ) -> list[Action]:
        """Let go of everything and end; a static member that does not leave keeps its place."""
        deadline_ms = now_ms + within_ms
        self._leaving.close(leave=leave, deadline_ms=deadline_ms, reason=reason, now_ms=now_ms)
        return self._advance(now_ms)

    # -- what happened -------------------------------------------------------------------------

    def answered(self, ticket: int, message: object, now_ms: int) -> list[Action]:
        """A request was answered."""
        self._outbox.deliver(ticket, message, now_ms)
        return self._advance(now_ms)

    def failed(self, ticket: int, failure: Failure, now_ms: int) -> list[Action]:
        """A request was not answered."""
        self._outbox.deliver(ticket, failure, now_ms)
        return self._advance(now_ms)

    def released(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[Action]:
        """Work on partitions that were to be revoked has ended."""
        self._ownership.released(partitions)
        return self._advance(now_ms)

    def fire(self, now_ms: int) -> list[Action]:
        """The time that `next_deadline` announced has come."""
        return self._advance(now_ms)

    def check_lease(self, now_ms: int) -> list[Action]:
        """Stop work if the lease has run out, and judge nothing else yet."""
        if self._state.phase is not Phase.OVER and self._heartbeats.has_run_out(now_ms):
            self._lease_ran_out(now_ms)
        return self._outbox.take()

    # -- inside --------------------------------------------------------------------------------

    def _advance(self, now_ms: int) -> list[Action]:
        """Let every part do what it can do now, those first that others wait for."""
        if self._state.phase is not Phase.OVER:
            if self._heartbeats.has_run_out(now_ms):
                self._lease_ran_out(now_ms)
            self._ownership.advance(now_ms)
            self._leaving.advance(now_ms)
        if self._state.phase is not Phase.OVER:
            self._lookup.advance(now_ms)
            self._standbys.advance(now_ms)
            self._imbalance.advance(now_ms)
            self._joining.advance(now_ms)
            self._leaving.advance(now_ms)  # The user's assignor may have failed.
        if self._state.phase is not Phase.OVER:
            self._topics.advance(now_ms)
            self._heartbeats.advance(now_ms)
            self._commits.advance(now_ms)
            self._fetches.advance(now_ms)
        return self._outbox.take()

    def _react(self, code: int, identity: Identity, now_ms: int) -> None:
        """Do what an error code asks for that was an answer to the given identity."""
        state = self._state
        if state.phase in (Phase.LEAVING, Phase.OVER):
            return
        reaction = reaction_to(code)
        if reaction is Reaction.FIND_COORDINATOR:
            self._lookup.forget(str(error_for(code)), now_ms)
            return
        if identity != state.identity:
            return  # The member has another id or generation by now.
        if self._is_premature(reaction):
            if reaction is Reaction.RESET_IDENTITY:  # A member that is not known owns nothing.
                self._ownership.lose(str(error_for(code)))
            return
        self._follow(reaction, error_for(code), now_ms)

    def _is_premature(self, reaction: Reaction) -> bool:
        """Whether the answer to a join or sync, on its way, will tell better what to do.

        A leader that is about to decide awaits none, but older coordinators tell it that a
        rebalance is in progress, and mean its own.
        """
        phase = self._state.phase
        return phase in REBALANCING and (phase is not Phase.LEADING or reaction is Reaction.REJOIN)

    def _follow(self, reaction: Reaction, error: Exception, now_ms: int) -> None:
        match reaction:
            case Reaction.REJOIN:
                self._state.request_rejoin("the group is rebalancing")
                self._leaving.hurry(now_ms)
            case Reaction.RESET_GENERATION:
                self._start_over(Identity(self.identity.member_id), str(error), now_ms)
            case Reaction.RESET_IDENTITY:
                self._start_over(Identity(), str(error), now_ms)
            case Reaction.BE_FENCED:
                self._leaving.fenced()
            case Reaction.FAIL | Reaction.TAKE_ID:  # An id can only be given to one who joins.
                self._fail(error)

    def _start_over(self, identity: Identity, reason: str, now_ms: int) -> None:
        """Lose everything and join anew: the group went on without this member."""
        self._ownership.lose(reason)
        self._loads.forget()
        self._heartbeats.stop()
        self._state.identity = identity
        self._state.is_leader = False
        self._joining.start_over(now_ms)
        self._state.rejoin_reason = None
        self._state.request_rejoin(reason)

    def _lease_ran_out(self, now_ms: int) -> None:
        """Stop all work: the coordinator was silent for so long that it may have dropped us.

        If it did, it says so when it is asked.  If it did not, as when this process or that of the
        coordinator was suspended, there is no need for a rebalance.
        """
        state = self._state
        reason = f"no sign of life from the coordinator for {self._config.silence}"
        if state.phase is Phase.STABLE:
            self._ownership.suspend(reason)
            state.enter(Phase.PROVING)
            self._heartbeats.begin_anew(now_ms)
        else:
            self._ownership.lose(reason)
        if state.phase is not Phase.PROVING and state.phase not in REBALANCING:
            self._start_over(Identity(state.identity.member_id), reason, now_ms)

    def _topics_changed(self, changes: Mapping[str, int | None]) -> None:
        """Lose the partitions that are gone; a leader has the group share out the others."""

        def is_gone(partition: TopicPartition) -> bool:
            topic, number = partition
            return topic in changes and number >= (changes[topic] or 0)

        state = self._state
        gone = [each for each in state.owned if is_gone(each)]
        self._ownership.lose(_GONE, gone)
        self._ownership.forget_suspended(is_gone)
        self._standbys.withdraw(is_gone)
        has_decided = state.phase not in REBALANCING or state.phase is Phase.SYNCING
        if state.is_leader and has_decided:
            state.request_rejoin("topics changed")

    def _partitions_missed(self, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """See to partitions for which was committed, and which the coordinator does not know.

        Coterie's has looked for them.  Another topic of the same name may be there a moment later,
        to which such a commit must not be repeated; the leader can't tell it from the former one.
        Kafka's may not have heard yet of a topic that is new.  And a leader that gives them back at
        once hears of topics from a node that knows less.
        """
        gone = [each for each in partitions if now_ms >= self._missed_until_ms.get(each, 0)]
        if self._state.numbers_commits and gone:
            until_ms = now_ms + self._config.metadata_max_age_ms
            self._missed_until_ms |= dict.fromkeys(gone, until_ms)
            self._ownership.lose(_GONE, gone)
            self._state.request_rejoin("topics changed")
        else:
            self._topics.look_soon(now_ms)

    def _fail(self, error: Exception) -> None:
        self._leaving.fail(error)

    def _fail_in_order(self, error: Exception, now_ms: int) -> None:
        self._leaving.fail_in_order(error, now_ms)
