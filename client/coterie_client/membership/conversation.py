"""The two phases of a rebalance, from a member's side: JoinGroup, then SyncGroup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeGuard, TypeVar

from coterie_assignors import Assignor, Claim, MemberInfo, RebalanceProtocol
from coterie_client.membership.actions import Failure, FailureKind, Hangup
from coterie_client.membership.config import REASON_CHARS
from coterie_client.membership.events import (
    GroupJoined,
    JoinStarted,
    LeaderDecided,
    RetryPlanned,
)
from coterie_client.membership.finding import Finder
from coterie_client.membership.ground import Ground
from coterie_client.membership.heart import Heart
from coterie_client.membership.holdings import Holdings
from coterie_client.membership.leading import decide, read_members, topics_of
from coterie_client.membership.patience import Patience
from coterie_client.membership.standing import Identity, Phase
from coterie_client.membership.subscribing import common_protocol, offers
from coterie_client.membership.taking_over import Takeover
from coterie_client.membership.topic_watch import TopicWatch
from coterie_client.membership.verdicts import Verdict, verdict_of
from coterie_client.wire.addresses import Lane, NodeAddress, TopicPartition
from coterie_protocol.consumer import Assignment, decode_assignment, group_by_topic
from coterie_protocol.errors import InconsistentGroupProtocolError, error_for
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

__all__ = ["Conversation"]

_PROTOCOL_TYPE: Final = "consumer"

A = TypeVar("A", JoinGroupResponse, SyncGroupResponse)


class Conversation:
    """Brings a member from the wish to join to an assignment.

    Each step is taken by `advance` when its conditions hold, so whatever happens in between only
    has to be noted in the standing.
    """

    def __init__(
        self,
        ground: Ground,
        assignors: Sequence[Assignor],
        *,
        finder: Finder,
        heart: Heart,
        topics: TopicWatch,
        holdings: Holdings,
    ) -> None:
        self._config = ground.config
        self._post = ground.post
        self._standing = ground.standing
        self._judge = ground.judge
        self._fail = ground.fail
        self._backoff = ground.backoff()
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = common_protocol(assignors)
        self._finder = finder
        self._heart = heart
        self._topics = topics
        self._holdings = holdings
        self._patience = patience = Patience(ground.config, heart)
        self._takeover = Takeover(ground, patience=patience, topics=topics, holdings=holdings)
        self._ticket: int | None = None
        #: Whom we asked last.
        self._asked: NodeAddress | None = None
        self._not_before_ms = 0
        #: When to doubt that the coordinator ever heard what we ask.
        self._doubt_ms: int | None = None
        self._began_ms = 0
        self._reason = ""
        #: What the member had when it last joined, for assignors that want to know.
        self._had = Claim()
        #: What it said that it can't work on.
        self._refused: frozenset[TopicPartition] = frozenset()
        self._assignor: Assignor | None = None
        self._members: Mapping[str, MemberInfo] = {}
        self._is_decided = False
        self._assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        self._assignment: Assignment | None = None
        #: The fencing token that came with it, if the coordinator issues any.
        self._token: int | None = None
        #: What was lost with the lease, with its tokens: it is taken up again if the coordinator
        #: counts on us yet.
        self._suspended: dict[TopicPartition, int] = {}

    @property
    def deadline_ms(self) -> int | None:
        """When to take a step that waits for nothing but time, or to ask once more."""
        return self._not_before_ms if self._is_ready() else self._doubt_ms

    @property
    def led_topics(self) -> frozenset[str]:
        """The topics of all whom this member leads; none if it does not lead."""
        return topics_of(self._members)

    def advance(self, now_ms: int) -> None:
        """Take all steps that can be taken now."""
        standing = self._standing
        if standing.phase is Phase.PROVING and self._heart.is_trusted(now_ms):
            if self._assignment is None:
                self._resume()
            else:
                self._accept(now_ms)
        if self._doubt_ms is not None and now_ms >= self._doubt_ms:
            self._ask_again()
        if not self._is_ready() or now_ms < self._not_before_ms:
            return
        if standing.phase in (Phase.OUT, Phase.STABLE):
            self._prepare(now_ms)
        elif standing.phase in (Phase.PREPARING, Phase.JOINING):
            self._let_go(now_ms)  # The subscription may have changed since.
        if standing.phase is Phase.PREPARING and not standing.releasing:
            standing.phase = Phase.JOINING
            kept = len(standing.owned)
            self._post.report(JoinStarted(reason=self._reason, keeping=kept))
        if self._finder.address is not None:
            self._speak(now_ms)

    def abort(self) -> None:
        """Whatever is under way does not matter any more."""
        self._post.drop(self._ticket)
        self._ticket = self._doubt_ms = None
        self._assignment = None
        self._suspended = {}

    def suspend(self, lost: Mapping[TopicPartition, int]) -> None:
        """Have the coordinator confirm our generation before anything else is done in it.

        As long as it counts on us in that generation it gives nothing of ours to anybody else, so
        what was lost with the lease is then taken up again.
        """
        if self._standing.phase is Phase.STABLE:
            self._standing.phase = Phase.PROVING
            self._suspended = dict(lost)

    def forget(self, gone: Callable[[TopicPartition], bool]) -> None:
        """Take up no partitions that are no more."""
        self._suspended = {p: token for p, token in self._suspended.items() if not gone(p)}

    def begin_anew(self, now_ms: int) -> None:
        """What was owned is lost: join again, from the start."""
        self.abort()
        self._standing.phase = Phase.OUT
        self._not_before_ms = now_ms

    def _speak(self, now_ms: int) -> None:
        """Say to the coordinator what the phase asks for."""
        standing = self._standing
        if standing.phase is Phase.JOINING:
            self._join(now_ms)
        elif standing.phase is Phase.LEADING:
            self._lead()
        if standing.phase is Phase.SYNCING:
            self._sync(now_ms)

    def _is_ready(self) -> bool:
        """Whether a step waits for nothing but time."""
        standing = self._standing
        if self._ticket is not None or standing.phase is Phase.OVER:
            return False
        match standing.phase:
            case Phase.OUT | Phase.STABLE:
                wishes = standing.rejoin is not None and not standing.is_closing
                return wishes and not standing.releasing
            case Phase.PREPARING:
                return not standing.releasing
            case Phase.JOINING | Phase.SYNCING:
                return self._finder.address is not None
            case Phase.LEADING:
                return self._finder.address is not None and self._topics.is_fresh()
            case _:
                return False

    # -- before the join -----------------------------------------------------------------------

    def _prepare(self, now_ms: int) -> None:
        standing = self._standing
        self._began_ms = now_ms
        self._reason = standing.rejoin or ""
        generation = standing.identity.generation
        self._had = Claim(group_by_topic(standing.owned), generation)
        standing.phase = Phase.PREPARING
        self._let_go(now_ms)

    def _let_go(self, now_ms: int) -> None:
        """Let go of what may not be kept while joining: all of it, or what is not wanted now."""
        standing = self._standing
        if self.protocol is RebalanceProtocol.EAGER:
            doomed = list(standing.owned)
        else:
            doomed = [each for each in standing.owned if each[0] not in standing.wanted]
        self._holdings.revoke(
            doomed, self._reason, self._patience.release_deadline_ms(now_ms), now_ms
        )
        if standing.releasing.intersection(doomed):
            standing.phase = Phase.PREPARING

    # -- joining -------------------------------------------------------------------------------

    def _join(self, now_ms: int) -> None:
        standing, config = self._standing, self._config
        assert self._finder.address is not None
        if self.protocol is RebalanceProtocol.COOPERATIVE:
            self._had = Claim(group_by_topic(standing.owned), standing.identity.generation)
        self._refused = frozenset(standing.refused)
        try:
            protocols = self._offers()
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail(error)
            return
        standing.rejoin = None
        request = JoinGroupRequest(
            group_id=config.group,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            member_id=standing.identity.member_id,
            group_instance_id=config.instance,
            protocol_type=_PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._reason[:REASON_CHARS],
        )
        self._asked = self._finder.address
        self._ticket = self._post.send(
            request, self._asked, Lane.GROUP, config.join_timeout_ms, self._joined
        )
        self._doubt_ms = self._patience.doubtful_ms(now_ms) if standing.owned else None

    def _offers(self) -> tuple[JoinGroupRequestProtocol, ...]:
        return offers(
            tuple(self._assignors.values()),
            self._standing.wanted,
            self._had,
            keeps=self.protocol is RebalanceProtocol.COOPERATIVE,
            refused=group_by_topic(self._refused),
            rack=self._config.rack,
        )

    def _ask_again(self) -> None:
        """Join or sync once more, over another connection.

        Heartbeats tell that the coordinator counts on us, but not whether it knows that we want to
        join. If it doesn't, it will drop us at the end of the rebalance, and give away what we
        still work on. A sync that did not arrive leaves us unaware that another rebalance began.
        To have asked twice does no harm.
        """
        self._post.drop(self._ticket)
        self._ticket = self._doubt_ms = None
        if self._finder.address is not None:
            self._post.do(Hangup(self._finder.address, Lane.GROUP))

    def _joined(self, answer: JoinGroupResponse | Failure, now_ms: int) -> None:
        self._ticket = self._doubt_ms = None
        if not self._is_answer(answer, "join the group", now_ms):
            return
        standing = self._standing
        assignor = self._assignors.get(answer.protocol_name or "")
        if assignor is None:
            detail = f"the group uses {answer.protocol_name!r}, which this member does not know"
            self._fail(InconsistentGroupProtocolError(detail))
            return
        standing.identity = Identity(answer.member_id, answer.generation_id)
        standing.is_leader = answer.leader == answer.member_id
        self._assignor, self._assignments = assignor, ()
        self._heart.begin(now_ms)
        self._post.report(
            GroupJoined(
                member_id=answer.member_id,
                generation=answer.generation_id,
                is_leader=standing.is_leader,
                assignor=assignor.name,
            )
        )
        self._members = read_members(answer.members, self._post) if standing.is_leader else {}
        self._topics.watch(standing.wanted | self.led_topics, now_ms)
        # The leader decides by what there is now, and the others see whether what they have is
        # still there: often it is a change of the topics that made the group rebalance.
        self._topics.refresh(now_ms)
        self._is_decided = answer.skip_assignment
        standing.phase = Phase.LEADING if standing.is_leader else Phase.SYNCING

    def _lead(self) -> None:
        assert self._assignor is not None
        if self._is_decided:
            # What we decided before we restarted still stands (KIP-814). Only now that we know the
            # topics, we can tell when they change.
            self._standing.phase = Phase.SYNCING
            return
        try:
            decision = decide(self._assignor, self._topics.cluster(), self._members)
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail(error)
            return
        self._post.report(
            LeaderDecided(
                generation=self._standing.identity.generation,
                members=len(decision.assignments),
                partitions=decision.partitions,
                withheld=decision.withheld,
            )
        )
        self._assignments = decision.assignments
        self._standing.phase = Phase.SYNCING

    # -- syncing -------------------------------------------------------------------------------

    def _sync(self, now_ms: int) -> None:
        assert self._finder.address is not None
        assert self._assignor is not None
        identity, config = self._standing.identity, self._config
        request = SyncGroupRequest(
            group_id=config.group,
            generation_id=identity.generation,
            member_id=identity.member_id,
            group_instance_id=config.instance,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self._assignor.name,
            assignments=self._assignments,
            wants_token=True,
        )

        def synced(answer: SyncGroupResponse | Failure, then_ms: int) -> None:
            self._ticket = self._doubt_ms = None
            if self._is_answer(answer, "sync with the group", then_ms):
                self._heart.calm_at_ms = max(self._heart.calm_at_ms, now_ms)
                self._read(answer)

        self._asked = self._finder.address
        self._ticket = self._post.send(
            request, self._asked, Lane.GROUP, config.join_timeout_ms, synced
        )
        if self._standing.owned:
            self._doubt_ms = self._patience.doubtful_ms(now_ms)

    def _read(self, answer: SyncGroupResponse) -> None:
        try:
            assignment = (
                decode_assignment(answer.assignment)
                if answer.assignment
                else Assignment(assigned_partitions=())
            )
        except ProtocolError as error:
            self._fail(error)
            return
        self._assignments = ()
        self._assignment = assignment
        self._token = answer.fencing_token if answer.fencing_token >= 0 else None
        self._standing.numbers_commits = self._token is not None
        self._standing.phase = Phase.PROVING

    def _accept(self, now_ms: int) -> None:
        assert self._assignment is not None
        assert self._assignor is not None
        assignment, self._assignment = self._assignment, None
        self._backoff.reset()
        self._takeover.accept(
            self._assignor,
            assignment,
            self._refused,
            token=self._token,
            began_ms=self._began_ms,
            now_ms=now_ms,
        )

    def _resume(self) -> None:
        """The lease ran out, the session did not: nobody else was given what we had."""
        standing, suspended = self._standing, self._suspended
        self._suspended = {}
        standing.phase = Phase.STABLE
        if not standing.is_closing:
            wanted = {
                each: token
                for each, token in suspended.items()
                if each not in standing.refused and each[0] in standing.wanted
            }
            self._holdings.take_back(wanted, standing.identity.generation)

    # -- answers that are none -----------------------------------------------------------------

    def _is_answer(self, answer: A | Failure, what: str, now_ms: int) -> TypeGuard[A]:
        """Whether it went well; if not, whatever follows from that has been noted."""
        if isinstance(answer, Failure):
            self._failed(answer, what, now_ms)
            return False
        verdict = verdict_of(answer.error_code)
        match verdict:
            case Verdict.FINE:
                self._finder.confirm()
                return True
            case Verdict.TAKE_ID if isinstance(answer, JoinGroupResponse):
                self._standing.identity = Identity(answer.member_id)
            case Verdict.RETRY:
                self._retry(what, error_for(answer.error_code), now_ms)
            case Verdict.SEEK:
                self._finder.forget(str(error_for(answer.error_code)), now_ms, self._asked)
            case Verdict.REJOIN if self._standing.phase is Phase.JOINING:
                self._retry(what, error_for(answer.error_code), now_ms)
            case Verdict.REJOIN:
                # In this generation we are, though we were never told what we own in it.
                self._standing.phase = Phase.STABLE
                self._standing.want_rejoin("the group began another rebalance")
            case _:
                self._standing.phase = Phase.OUT
                self._judge(answer.error_code, self._standing.identity, now_ms)
        return False

    def _failed(self, failure: Failure, what: str, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            self._fail(failure.reason)
            return
        self._finder.forget(f"could not {what}: {failure}", now_ms, self._asked)

    def _retry(self, what: str, error: Exception, now_ms: int) -> None:
        delay_ms = self._backoff.next_ms()
        self._not_before_ms = now_ms + delay_ms
        self._post.report(RetryPlanned(what=what, reason=str(error), delay_ms=delay_ms))
