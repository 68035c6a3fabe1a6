"""How a member joins a generation: what it does before, JoinGroup, then SyncGroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeGuard, TypeVar

from coterie_assignors import Assignor, Claim, Plan, RebalanceProtocol, WarmSettings
from coterie_client.membership.actions import Failure, FailureKind, Hangup
from coterie_client.membership.assigning import Assigning, Round
from coterie_client.membership.config import REASON_CHARS
from coterie_client.membership.consumer_protocol import (
    PROTOCOL_TYPE,
    Leadership,
    Roster,
    common_protocol,
    decide,
    offers,
    read_members,
)
from coterie_client.membership.context import Context, Identity
from coterie_client.membership.coordinator import CoordinatorLookup, Reaction, reaction_to
from coterie_client.membership.events import GroupJoined, JoinStarted, RetryPlanned
from coterie_client.membership.heartbeats import Heartbeats
from coterie_client.membership.imbalance import Decision, Imbalance
from coterie_client.membership.ownership import Ownership
from coterie_client.membership.phases import Phase
from coterie_client.membership.standbys import Standbys
from coterie_client.membership.topics import Topics
from coterie_client.wire.addresses import Lane, NodeAddress, TopicPartition
from coterie_protocol.consumer import flatten, group_by_topic
from coterie_protocol.errors import InconsistentGroupProtocolError, error_for
from coterie_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

__all__ = ["Joining"]

A = TypeVar("A", JoinGroupResponse, SyncGroupResponse)


class Joining:
    """Takes a member from a reason to join to its assignment.

    `advance` takes each step when its conditions hold, so whatever happens in between only has to
    be noted in the state.
    """

    def __init__(
        self,
        context: Context,
        assignors: Sequence[Assignor],
        *,
        lookup: CoordinatorLookup,
        heartbeats: Heartbeats,
        topics: Topics,
        ownership: Ownership,
        standbys: Standbys,
        imbalance: Imbalance,
    ) -> None:
        self._config = context.config
        self._wall_ms = context.sources.wall_ms
        self._outbox, self._state = context.outbox, context.state
        self._react, self._loads = context.react, context.loads
        self._fail, self._fail_in_order = context.fail, context.fail_in_order
        self._backoff = context.backoff()
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._keeps = common_protocol(assignors) is RebalanceProtocol.COOPERATIVE
        self._lookup, self._heartbeats = lookup, heartbeats
        self._topics, self._ownership = topics, ownership
        self._standbys, self._imbalance = standbys, imbalance
        self._assigning = Assigning(context, topics=topics, ownership=ownership, standbys=standbys)
        self._ticket: int | None = None
        #: The node that was asked last.
        self._asked: NodeAddress | None = None
        self._not_before_ms = 0
        #: When to ask once more, because the coordinator may never have heard the request.
        self._ask_again_ms: int | None = None
        self._began_ms, self._reason = 0, ""
        #: What the member had when it last joined, for assignors that want to know.
        self._had = Claim()
        #: What it said then that it can't work on.
        self._refused: frozenset[TopicPartition] = frozenset()
        self._assignor: Assignor | None = None
        self._roster, self._skips_assignment = Roster(), False
        self._assignments: tuple[SyncGroupRequestAssignment, ...] = ()
        #: What is left to do, if the member led the last generation it was in.
        self._plan: Plan | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When to take a step that waits for nothing but time, or to ask once more."""
        return self._not_before_ms if self._is_ready() else self._ask_again_ms

    @property
    def led_topics(self) -> frozenset[str]:
        """The topics of all members that this one leads; none if it does not lead."""
        return self._roster.topics

    def advance(self, now_ms: int) -> None:
        """Take all steps that can be taken now."""
        state = self._state
        if state.phase is Phase.PROVING and self._heartbeats.has_lease(now_ms):
            self._go_to_work(now_ms)
        if self._ask_again_ms is not None and now_ms >= self._ask_again_ms:
            self._ask_again()
        if not self._is_ready() or now_ms < self._not_before_ms:
            return
        if state.phase in (Phase.OUT, Phase.STABLE):
            self._prepare(now_ms)
        elif state.phase in (Phase.PREPARING, Phase.JOINING):
            self._let_go(now_ms)  # The subscription may have changed since.
        if state.phase is Phase.PREPARING and not state.releasing:
            state.enter(Phase.JOINING)
            self._outbox.report(JoinStarted(reason=self._reason, keeping=len(state.owned)))
            self._standbys.begin_join(now_ms)
        if self._lookup.address is not None:
            self._ask(now_ms)

    def abort(self) -> None:
        """Drop what is under way."""
        self._outbox.ignore(self._ticket)
        self._ticket = self._ask_again_ms = None
        self._assigning.forget()
        self._ownership.forget_suspended()

    def start_over(self, now_ms: int) -> None:
        """Join from the start, after everything was lost."""
        self.abort()
        self._state.enter(Phase.OUT)
        self._not_before_ms = now_ms

    def _is_ready(self) -> bool:
        """Whether a step waits for nothing but time."""
        state = self._state
        if self._ticket is not None or state.has_failed:
            return False
        match state.phase:
            case Phase.OUT | Phase.STABLE:
                return state.rejoin_reason is not None and not (state.is_closing or state.releasing)
            case Phase.PREPARING:
                return not state.releasing
            case Phase.JOINING | Phase.SYNCING | Phase.PROVING:
                return self._lookup.address is not None and not self._heartbeats.come_first
            case Phase.LEADING:
                return self._lookup.address is not None and self._topics.is_fresh()
            case _:
                return False

    # -- before the join -----------------------------------------------------------------------

    def _prepare(self, now_ms: int) -> None:
        state = self._state
        self._began_ms = now_ms
        self._reason = state.rejoin_reason or ""
        self._had = self._claim()
        state.enter(Phase.PREPARING)
        self._let_go(now_ms)

    def _let_go(self, now_ms: int) -> None:
        """Let go of what may not be kept: unsubscribed topics, or everything if it is eager."""
        state = self._state
        doomed = [p for p in state.owned if not (self._keeps and p[0] in state.subscribed)]
        deadline_ms = self._heartbeats.release_deadline_ms(now_ms)
        self._ownership.revoke(doomed, self._reason, deadline_ms, now_ms)
        if state.releasing.intersection(doomed):
            state.enter(Phase.PREPARING)

    def _claim(self) -> Claim:
        return Claim(group_by_topic(self._state.owned), self._state.identity.generation)

    def _stopped(self) -> frozenset[TopicPartition]:
        """What an eager member has stopped working on to join."""
        return frozenset() if self._keeps else flatten(self._had.owned)

    # -- asking --------------------------------------------------------------------------------

    def _ask(self, now_ms: int) -> None:
        """Send the request that the phase calls for."""
        state = self._state
        if state.phase is Phase.JOINING:
            self._join(now_ms)
        elif state.phase is Phase.LEADING:
            self._lead(now_ms)
        if state.phase in (Phase.SYNCING, Phase.PROVING):
            self._sync(now_ms)

    def _send(self, request: object, handler: Callable[[Any, int], None], now_ms: int) -> None:
        assert self._lookup.address is not None
        self._asked = self._lookup.address
        timeout_ms = self._config.join_timeout_ms
        self._ticket = self._lookup.ask(request, Lane.GROUP, timeout_ms, handler, now_ms)
        # A member that owns nothing, and is not to, has nothing to fear if a request goes astray.
        if self._state.owned or self._state.phase is Phase.PROVING:
            self._ask_again_ms = self._heartbeats.ask_again_ms(now_ms)

    def _ask_again(self) -> None:
        """Join or sync once more, over another connection.

        Heartbeats tell that the coordinator keeps the member, but not whether it knows that the
        member wants to join.  If it doesn't, it will drop the member at the end of the rebalance,
        and give away what that still works on.  After a sync that did not arrive, the member does
        not learn that another rebalance began.  To have asked twice does no harm.
        """
        self._outbox.ignore(self._ticket)
        self._ticket = self._ask_again_ms = None
        if self._lookup.address is not None:
            self._outbox.add(Hangup(self._lookup.address, Lane.GROUP))

    # -- JoinGroup -----------------------------------------------------------------------------

    def _join(self, now_ms: int) -> None:
        state, config = self._state, self._config
        if self._keeps:
            self._had = self._claim()
        # What still waits for its last commit is claimed, and the next join gives it up.
        self._refused = frozenset(state.refused - state.owned.keys())
        try:
            self._loads.tell(self._assignors.values(), now_ms)
            protocols = offers(
                tuple(self._assignors.values()),
                state.subscribed,
                self._had,
                keeps=self._keeps,
                refused=group_by_topic(self._refused),
                rack=config.rack,
                report=self._standbys.report(self._stopped()),
                told=state.telling(keeps=self._keeps),
            )
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail_in_order(error, now_ms)
            return
        state.rejoin_reason = "gave up partitions" if state.refused - self._refused else None
        request = JoinGroupRequest(
            group_id=config.group,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            member_id=state.identity.member_id,
            group_instance_id=config.instance,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._reason[:REASON_CHARS],
            registration_timeout_ms=config.registration_timeout_ms,
            wants_absences=True,
            wants_operations=True,
        )
        state.may_be_known_by_name = config.instance is not None
        self._send(request, partial(self._joined, now_ms), now_ms)
        self._heartbeats.joins(now_ms)

    def _joined(self, sent_ms: int, answer: JoinGroupResponse | Failure, now_ms: int) -> None:
        self._ticket = self._ask_again_ms = None
        if not self._has_succeeded(answer, "join the group", now_ms):
            return
        state = self._state
        assignor = self._assignors.get(answer.protocol_name or "")
        if assignor is None:
            detail = f"the group uses {answer.protocol_name!r}, which this member does not know"
            self._fail(InconsistentGroupProtocolError(detail))
            return
        state.identity = Identity(answer.member_id, answer.generation_id)
        state.is_leader = answer.leader == answer.member_id
        self._assignor, self._assignments = assignor, ()
        self._heartbeats.begin_generation(sent_ms, now_ms)
        self._outbox.report(
            GroupJoined(
                member_id=answer.member_id,
                generation=answer.generation_id,
                is_leader=state.is_leader,
                assignor=assignor.name,
            )
        )
        if state.is_leader:
            self._roster = read_members(answer, self._outbox, self._config.warm_version)
        else:
            self._roster, self._plan = Roster(), None
        self._topics.watch(state.subscribed | self.led_topics, now_ms)
        # Often it is a change of the topics that made the group rebalance: the leader decides by
        # what there is now, and the others see whether what they have is still there.
        self._topics.refresh(now_ms)
        self._skips_assignment = answer.skip_assignment
        state.enter(Phase.LEADING if state.is_leader else Phase.SYNCING)

    def _lead(self, now_ms: int) -> None:
        assert self._assignor is not None
        if self._skips_assignment:
            # What this member decided before it restarted still stands (KIP-814).  Only with the
            # topics known now, it can tell when they change.
            self._state.enter(Phase.SYNCING)
            return
        identity, settings = self._state.identity, self._config.warm or WarmSettings()
        by = Leadership(
            identity.generation, identity.member_id, settings, self._wall_ms(), self._plan
        )
        cluster = self._topics.cluster()
        try:
            outcome = decide(self._assignor, cluster, self._roster, by, self._outbox)
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail(error)
            return
        self._assignments, self._plan = outcome.assignments, outcome.plan
        decision = Decision(self._assignor, cluster, self._roster.members, outcome)
        self._imbalance.decided(decision, now_ms)
        self._state.enter(Phase.SYNCING)

    # -- SyncGroup -----------------------------------------------------------------------------

    def _sync(self, now_ms: int) -> None:
        assert self._assignor is not None
        identity, config = self._state.identity, self._config
        request = SyncGroupRequest(
            group_id=config.group,
            generation_id=identity.generation,
            member_id=identity.member_id,
            group_instance_id=config.instance,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._assignor.name,
            assignments=self._assignments,
            wants_token=True,
        )
        kept_until_ms = self._heartbeats.kept_until_ms

        def synced(answer: SyncGroupResponse | Failure, then_ms: int) -> None:
            self._ticket = self._ask_again_ms = None
            if self._has_succeeded(answer, "sync with the group", then_ms):
                self._heartbeats.prove(kept_until_ms, then_ms)
                self._heartbeats.calm_at_ms = max(self._heartbeats.calm_at_ms, now_ms)
                self._synced(answer)

        self._send(request, synced, now_ms)

    def _synced(self, answer: SyncGroupResponse) -> None:
        self._assignments = ()  # In PROVING, the member has its assignment.
        if self._state.phase is Phase.SYNCING and self._assigning.receive(answer):
            self._state.enter(Phase.PROVING)

    def _go_to_work(self, now_ms: int) -> None:
        """Put the assignment in place, or resume the present one: the member has a lease."""
        self._outbox.ignore(self._ticket)
        self._ticket = self._ask_again_ms = None
        self._state.enter(Phase.STABLE)
        if not self._assigning.is_due:
            # The lease ran out and the session did not, so nothing was given to other members.
            self._ownership.resume()
            return
        assert self._assignor is not None
        self._backoff.succeeded()
        claimed = flatten(self._had.owned) - self._stopped()
        release_by_ms = self._heartbeats.release_deadline_ms(now_ms)
        this = Round(self._assignor, self._refused, claimed, self._began_ms, release_by_ms)
        self._assigning.put_in_place(this, now_ms)

    # -- answers that are errors ---------------------------------------------------------------

    def _has_succeeded(self, answer: A | Failure, what: str, now_ms: int) -> TypeGuard[A]:
        """Whether an answer is good; if it is not, do what follows from that."""
        if isinstance(answer, Failure):
            self._failed(answer, what, now_ms)
            return False
        state, code = self._state, answer.error_code
        state.may_be_known_by_name = False
        match reaction_to(code):
            case Reaction.NONE:
                self._lookup.confirm(now_ms)
                return True
            case Reaction.TAKE_ID if isinstance(answer, JoinGroupResponse):
                self._lookup.confirm(now_ms)
                state.identity = Identity(answer.member_id)
            case Reaction.RETRY:
                self._retry(what, error_for(code), now_ms)
            case Reaction.FIND_COORDINATOR:
                self._lookup.forget(str(error_for(code)), now_ms, self._asked)
            case Reaction.REJOIN if state.phase in (Phase.JOINING, Phase.PROVING):
                if state.phase is Phase.PROVING:
                    # It is in its generation still, but this need not have prolonged its session.
                    self._heartbeats.send_soon(now_ms)
                self._retry(what, error_for(code), now_ms)
            case Reaction.REJOIN:
                # The member is in this generation, though it was never told what it owns in it.
                state.enter(Phase.STABLE)
                state.request_rejoin("the group began another rebalance")
            case _:
                state.enter(Phase.OUT)
                self._react(code, state.identity, now_ms)
        return False

    def _failed(self, failure: Failure, what: str, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            self._fail(failure.reason)
            return
        self._lookup.forget(f"could not {what}: {failure}", now_ms, self._asked)

    def _retry(self, what: str, error: Exception, now_ms: int) -> None:
        delay_ms = self._backoff.next_ms()
        self._not_before_ms = now_ms + delay_ms
        self._outbox.report(RetryPlanned(what=what, reason=str(error), delay_ms=delay_ms))
