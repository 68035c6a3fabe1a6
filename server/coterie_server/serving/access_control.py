"""Lets requests through as far as their clients' rights go, before any other part sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.log.audit import AuditLog
from coterie_server.log.logger import get_logger
from coterie_server.security.acls import CLUSTER_NAME, Operation, ResourceType
from coterie_server.security.screening import (
    FREE,
    LOOK_AGAIN,
    PASS,
    Asking,
    Narrowed,
    Refusal,
    Refused,
    screen,
)
from coterie_server.serving.answering import Answering
from coterie_server.serving.failures import CHANGES, failure
from coterie_server.storage import StoreError
from coterie_server.turns import Unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from coterie_server.log.troubles import TroubleLog
    from coterie_server.net import Exchange
    from coterie_server.net.fast_path import Sender
    from coterie_server.security.authorizer import Authorizer
    from coterie_server.security.screening import Verdict
    from coterie_server.serving.access import Access
    from coterie_server.serving.catalogue_shard import CatalogueShard
    from coterie_server.serving.clock import Clock
    from coterie_server.serving.cluster import Cluster
    from coterie_server.serving.topic_copy import TopicCopy
    from coterie_server.topics import Catalogue, TopicConfig
    from coterie_server.turns import Making, Turns

__all__ = ["AccessControl", "KeptRights", "KnownTopics"]

_log = get_logger(__name__)


#: Where a request goes.
Route = Callable[["Exchange"], None]

#: What an auditor wants to know of even if it is allowed.
_CHANGES_OF_RIGHTS: Final = (
    m.AlterUserScramCredentialsRequest,
    m.CreateAclsRequest,
    m.DeleteAclsRequest,
)


#: What clients of a node without ACLs must not do to nodes that have them.
_ON_RIGHTS: Final = (*_CHANGES_OF_RIGHTS, m.DescribeUserScramCredentialsRequest)


@final
class KeptRights:
    """Keeps the rights and passwords that other nodes go by from the clients of one that does not.

    It lets its clients do everything, and the other nodes take it at its word.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._audit = AuditLog()

    def kept(self, routes: Mapping[type[Any], Route]) -> dict[type[Any], Route]:
        """The routes, of which clients can't take some while there are nodes with ACLs."""
        return {
            kind: self._kept(route) if kind in _ON_RIGHTS else route
            for kind, route in routes.items()
        }

    def _kept(self, route: Route) -> Route:
        refusal = Refusal(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

        def handle(exchange: Exchange) -> None:
            if exchange.principal.is_node or not self._cluster.others_go_by_acls:
                route(exchange)
                return
            who, message = exchange.principal, exchange.message
            self._audit.refused(who, exchange.host, message, refusal, exchange.received_ms)
            exchange.reply(failure(message, exchange.version, error))

        return handle


class KnownTopics:
    """The topics as far as this node knows them, where a right depends on them."""

    def __init__(self, own: CatalogueShard, copy: TopicCopy, config: TopicConfig) -> None:
        self._own = own
        self._copy = copy
        #: Whether Metadata makes topics that are not there, and whether topics can be deleted.
        self.makes_topics = config.auto_create
        self.deletes_topics = config.delete_enabled

    @property
    def is_certain(self) -> bool:
        """Whether no client can have been told of a topic that this node does not know."""
        return self._own.may_answer

    async def refresh(self) -> None:
        """Know all topics that any client was told of, and the rights that go with them."""
        if not self._own.may_answer:
            await self._copy.refresh()

    @property
    def _catalogue(self) -> Catalogue | None:
        return self._own.core if self._own.core is not None else self._copy.topics

    def has_topic(self, name: str) -> bool:
        """Whether there is such a topic, as far as this node knows."""
        return self._catalogue is not None and name in self._catalogue.topics

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of the topic with an id; None if this node knows none."""
        return None if self._catalogue is None else self._catalogue.name_of(topic_id)


@final
class AccessControl:
    """Asks the authorizer about each request, and answers for what is refused."""

    def __init__(
        self,
        authorizer: Authorizer,
        access: Access,
        topics: KnownTopics,
        clock: Clock,
        turns: Turns,
        troubles: TroubleLog,
    ) -> None:
        self._authorizer = authorizer
        self._access = access
        self._topics = topics
        self._clock = clock
        self._turns = turns
        self._troubles = troubles
        self._audit = AuditLog()
        self._answering = Answering()

    def close(self) -> None:
        """End what is under way."""
        self._answering.close()

    def lets_beat(self, sender: Sender, group_id: str) -> bool:
        """Whether a heartbeat may be answered at once; others are refused as by `controlled`."""
        return self._access.is_known and self._authorizer.allows(
            sender.principal, sender.peer.host, Operation.READ, ResourceType.GROUP, group_id
        )

    def controlled(self, routes: Mapping[type[Any], Route]) -> dict[type[Any], Route]:
        """The routes, which requests take as far as their clients' rights go."""
        return {
            kind: route if kind in FREE else self._controlled(route)
            for kind, route in routes.items()
        }

    def _controlled(self, route: Route) -> Route:
        def handle(exchange: Exchange) -> None:
            if exchange.principal.is_node:  # it has asked about rights where the request came in
                route(exchange)
            elif not self._access.is_known:
                exchange.close("who may do what can't be read just now")
            elif isinstance(exchange.message, CHANGES) and not self._topics.is_certain:
                # The owner of the catalogue carries out whatever it is passed.  If this node can't
                # reach the store, it has not heard which rights were taken away since.
                self._begin_look(exchange, route)
            else:
                self._screen(exchange, route, is_certain=self._topics.is_certain)

        return handle

    def _begin_look(self, exchange: Exchange, route: Route) -> None:
        self._answering.begin(exchange, partial(self._look_again, route))

    def _screen(self, exchange: Exchange, route: Route, *, is_certain: bool) -> None:
        asking = Asking(
            self._authorizer,
            exchange.principal,
            exchange.host,
            self._topics,
            partial(self._note, exchange),
            is_certain=is_certain,
        )
        verdict = screen(asking, exchange.message, exchange.version)
        if isinstance(verdict, Unfinished):
            exchange.take_turns()
            self._turns.do(self._finish(exchange, route, verdict.making), exchange)
            exchange.when_gone(self._turns.forget)
        else:
            self._carry_out(exchange, route, verdict)

    def _finish(self, exchange: Exchange, route: Route, making: Making[Verdict]) -> Iterator[None]:
        try:
            verdict = yield from making
            self._carry_out(exchange, route, verdict)
        except Exception:  # noqa: BLE001  # a bug must not leave a client waiting
            _log.exception("a bug: a request could not be screened")
            exchange.close("the server failed")

    def _carry_out(self, exchange: Exchange, route: Route, verdict: Verdict) -> None:
        if verdict is PASS:
            if isinstance(exchange.message, _CHANGES_OF_RIGHTS):
                self._audit.asked(exchange.principal, exchange.host, exchange.message)
            route(exchange)
        elif verdict is LOOK_AGAIN:
            self._begin_look(exchange, route)
        elif isinstance(verdict, Refused):
            exchange.reply(verdict.answer)
        elif isinstance(verdict, Narrowed):
            exchange.narrow(verdict.message, verdict.complete)
            route(exchange)

    async def _look_again(self, route: Route, exchange: Exchange) -> None:
        """Screen a request when this node knows all topics, and all rights."""
        try:
            await self._topics.refresh()
            self._screen(exchange, route, is_certain=True)
        except StoreError as error:
            self._troubles.note("the topics can't be read", str(error))
            exchange.close("topics can't be read just now")

    def _note(self, exchange: Exchange, refusal: Refusal) -> None:
        self._audit.refused(
            exchange.principal, exchange.host, exchange.message, refusal, self._clock.now_ms()
        )
