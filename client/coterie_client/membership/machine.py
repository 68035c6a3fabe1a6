"""A member of a group, as a machine: answers and time go in, what is to be done comes out.

It reads no clock, draws no random numbers and awaits nothing.  Whoever runs it sends what it wants
sent, hands in the answers, starts and ends the work on partitions as it says, and calls `fire`
when `next_deadline` has come.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from coterie_assignors import Assignor
from coterie_client.membership.actions import Action, Failure, Position
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.conversation import Conversation
from coterie_client.membership.farewell import Farewell
from coterie_client.membership.finding import Finder
from coterie_client.membership.ground import Ground
from coterie_client.membership.heart import Heart
from coterie_client.membership.holdings import Holdings
from coterie_client.membership.offsets import Commits, Fetches
from coterie_client.membership.standing import CONVERSING, Identity, Phase
from coterie_client.membership.topic_watch import TopicWatch
from coterie_client.membership.verdicts import Verdict, verdict_of
from coterie_client.wire.addresses import NodeAddress, TopicPartition
from coterie_protocol.errors import error_for

__all__ = ["Membership"]


class Membership:
    """One member of one group (KIP-429's consumer, with the draft's NEEDS_REJOIN)."""

    def __init__(
        self, config: MembershipConfig, assignors: Sequence[Assignor], sources: Sources
    ) -> None:
        ground = Ground(config, sources, self._judge, self._fail)
        self._config = config
        self._standing, self._post = ground.standing, ground.post
        self._finder = Finder(ground)
        self._heart = Heart(ground, self._finder)
        self._topics = TopicWatch(ground, self._topics_changed)
        self._commits = Commits(ground, self._finder)
        self._fetches = Fetches(ground, self._finder)
        self._holdings = Holdings(ground, self._commits)
        self._conversation = Conversation(
            ground,
            assignors,
            finder=self._finder,
            heart=self._heart,
            topics=self._topics,
            holdings=self._holdings,
        )
        self._farewell = Farewell(
            ground,
            finder=self._finder,
            heart=self._heart,
            holdings=self._holdings,
            fetches=self._fetches,
            hush=self._conversation.abort,
        )

    # -- looking -------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """What the member is about."""
        return self._standing.phase

    @property
    def identity(self) -> Identity:
        """What the coordinator knows the member by."""
        return self._standing.identity

    @property
    def owned(self) -> Mapping[TopicPartition, int]:
        """What the member owns, with its fencing tokens; what is being let go of still counts."""
        return self._standing.owned

    @property
    def is_leader(self) -> bool:
        """Whether the member decides who is to own what."""
        return self._standing.is_leader

    @property
    def is_settled(self) -> bool:
        """Whether the member is at work, and neither lets go of anything nor wants to join."""
        standing = self._standing
        is_calm = standing.rejoin is None and not standing.releasing
        return standing.phase is Phase.STABLE and is_calm

    @property
    def coordinator(self) -> NodeAddress | None:
        """The node that coordinates the group, if it is known."""
        return self._finder.address

    def next_deadline(self) -> int | None:
        """When to call `fire`, if nothing happens until then."""
        if self._standing.phase is Phase.OVER:
            return None
        parts = (
            self._finder,
            self._heart,
            self._topics,
            self._conversation,
            self._holdings,
            self._commits,
            self._fetches,
            self._farewell,
        )
        deadlines = [part.deadline_ms for part in parts]
        return min((each for each in deadlines if each is not None), default=None)

    # -- what the user wants -------------------------------------------------------------------

    def start(self, topics: Collection[str], now_ms: int) -> list[Action]:
        """Join the group."""
        self._standing.want_rejoin("first join")
        return self._want(topics, now_ms)

    def subscribe(self, topics: Collection[str], now_ms: int) -> list[Action]:
        """Want other topics from now on."""
        if frozenset(topics) != self._standing.wanted:
            self._standing.want_rejoin("the subscription changed")
        return self._want(topics, now_ms)

    def _want(self, topics: Collection[str], now_ms: int) -> list[Action]:
        self._standing.wanted = frozenset(topics)
        self._topics.watch(self._standing.wanted | self._conversation.led_topics, now_ms)
        return self._settle(now_ms)

    def rejoin(self, reason: str, now_ms: int) -> list[Action]:
        """Have the group rebalance, because the user says so."""
        self._standing.want_rejoin(reason)
        return self._settle(now_ms)

    def give_up(self, partitions: Collection[TopicPartition], now_ms: int) -> list[Action]:
        """Own these no longer, as they can't be worked on here, and have others take them.

        Their work has ended.  A leader of Coterie's gives them to somebody else, if there is
        somebody; any other may give them back.
        """
        deadline_ms = now_ms + self._config.release_ms
        if self._holdings.give_up(partitions, deadline_ms, now_ms):
            names = ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions))
            self._standing.want_rejoin(f"gave up {names}")
        return self._settle(now_ms)

    def commit(
        self, key: Hashable, partition: TopicPartition, token: int, position: Position
    ) -> None:
        """Have an offset committed; it goes out with the next call that takes the time."""
        self._commits.add(key, partition, token, position)

    def fetch(self, key: Hashable, partition: TopicPartition) -> None:
        """Have a committed offset told; it is asked for with the next call that takes the time."""
        self._fetches.add(key, partition)

    def close(
        self, now_ms: int, *, leave: bool, within_ms: int, reason: str = "closed"
    ) -> list[Action]:
        """Let go of everything and end; a static member that does not leave keeps its place."""
        self._farewell.close(
            leave=leave, deadline_ms=now_ms + within_ms, reason=reason, now_ms=now_ms
        )
        return self._settle(now_ms)

    # -- what happened -------------------------------------------------------------------------

    def answered(self, ticket: int, message: object, now_ms: int) -> list[Action]:
        """A request was answered."""
        self._post.deliver(ticket, message, now_ms)
        return self._settle(now_ms)

    def failed(self, ticket: int, failure: Failure, now_ms: int) -> list[Action]:
        """A request was not answered."""
        self._post.deliver(ticket, failure, now_ms)
        return self._settle(now_ms)

    def released(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[Action]:
        """Work on partitions that were to be revoked has ended."""
        self._holdings.released(partitions)
        return self._settle(now_ms)

    def fire(self, now_ms: int) -> list[Action]:
        """Time has come for what `next_deadline` announced."""
        return self._settle(now_ms)

    def check_lease(self, now_ms: int) -> list[Action]:
        """Stop work if the lease has run out, and judge nothing else yet."""
        if self._standing.phase is not Phase.OVER and self._heart.has_run_out(now_ms):
            self._silenced(now_ms)
        return self._post.take()

    # -- inside --------------------------------------------------------------------------------

    def _settle(self, now_ms: int) -> list[Action]:
        """Let every part do what can be done now, those first that others wait for."""
        if self._standing.phase is not Phase.OVER:
            if self._heart.has_run_out(now_ms):
                self._silenced(now_ms)
            self._holdings.advance(now_ms)
            self._farewell.advance(now_ms)
        if self._standing.phase is not Phase.OVER:
            self._finder.advance(now_ms)
            self._conversation.advance(now_ms)
            self._farewell.advance(
                now_ms
            )  # What the user wrote for the conversation may have failed.
        if self._standing.phase is not Phase.OVER:
            self._topics.advance(now_ms)
            self._heart.advance(now_ms)
            self._commits.advance(now_ms)
            self._fetches.advance(now_ms)
        return self._post.take()

    def _judge(self, code: int, identity: Identity, now_ms: int) -> None:
        """Draw the consequences of an error code that came for an identity."""
        standing = self._standing
        if standing.phase in (Phase.LEAVING, Phase.OVER):
            return  # What is said of a member that is going changes nothing.
        verdict = verdict_of(code)
        if verdict is Verdict.SEEK:
            self._finder.forget(str(error_for(code)), now_ms)
            return
        if identity != standing.identity:
            return  # It was said of who we were.
        if self._is_premature(verdict):
            if verdict is Verdict.NEW_IDENTITY:  # Who is not known owns nothing.
                self._holdings.lose(str(error_for(code)))
            return
        self._follow(verdict, error_for(code), now_ms)

    def _follow(self, verdict: Verdict, error: Exception, now_ms: int) -> None:
        """Do what a verdict on who we are asks for."""
        match verdict:
            case Verdict.REJOIN:
                self._standing.want_rejoin("the group is rebalancing")
            case Verdict.NEW_GENERATION:
                self._left_behind(Identity(self.identity.member_id), str(error), now_ms)
            case Verdict.NEW_IDENTITY:
                self._left_behind(Identity(), str(error), now_ms)
            case Verdict.FENCED:
                self._farewell.fenced()
            case Verdict.FATAL | Verdict.TAKE_ID:  # An id can only be given to one who joins.
                self._fail(error)

    def _is_premature(self, verdict: Verdict) -> bool:
        """Whether an answer on its way will say better what an error from beside it says.

        A leader that is about to decide awaits none, but older coordinators tell it that a
        rebalance is in progress, and mean its own.
        """
        phase = self._standing.phase
        return phase in CONVERSING and (phase is not Phase.LEADING or verdict is Verdict.REJOIN)

    def _left_behind(self, identity: Identity, reason: str, now_ms: int) -> None:
        """The group went on without us: what we owned may be others' by now."""
        self._holdings.lose(reason)
        self._heart.stop()
        self._standing.identity = identity
        self._standing.is_leader = False
        self._conversation.begin_anew(now_ms)
        self._standing.rejoin = None
        self._standing.want_rejoin(reason)

    def _silenced(self, now_ms: int) -> None:
        """The coordinator was silent for so long that it may have dropped us.

        If it did, it says so to the next heartbeat.  If it did not, as when this process or that of
        the coordinator was suspended, there is no need for a rebalance.
        """
        standing = self._standing
        releasing = standing.releasing
        lost = {each: token for each, token in standing.owned.items() if each not in releasing}
        reason = "no sign of life from the coordinator for a session timeout"
        self._holdings.lose(reason)
        if standing.phase in (Phase.STABLE, Phase.PROVING):
            self._conversation.suspend(lost)
            self._heart.prove(now_ms)
        elif standing.phase not in CONVERSING:
            self._left_behind(Identity(standing.identity.member_id), reason, now_ms)

    def _topics_changed(self, changes: Mapping[str, int | None]) -> None:
        gone = [each for each in self._standing.owned if _is_gone(each, changes)]
        self._holdings.lose("the topic does not have it any more", gone)
        self._conversation.forget(lambda each: _is_gone(each, changes))
        decided = self._standing.phase not in CONVERSING or self._standing.phase is Phase.SYNCING
        if self._standing.is_leader and decided:
            self._standing.want_rejoin("topics changed")

    def _fail(self, error: Exception) -> None:
        self._farewell.fail(error)


def _is_gone(partition: TopicPartition, changes: Mapping[str, int | None]) -> bool:
    topic, number = partition
    return topic in changes and number >= (changes[topic] or 0)
