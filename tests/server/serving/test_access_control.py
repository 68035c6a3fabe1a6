"""What lies between connections and the routes: screened requests pass, are refused, or wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import structlog.testing

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.log.troubles import TroubleLog
from coterie_server.net import Exchange
from coterie_server.security import ANONYMOUS, Principal
from coterie_server.security.authorizer import AccessConfig
from coterie_server.security.principal import NODE_KIND
from coterie_server.security.rights import Rights
from coterie_server.serving import access_control
from coterie_server.serving.access import Access
from coterie_server.serving.access_control import AccessControl, KnownTopics
from coterie_server.serving.clock import Clock
from coterie_server.storage import StoreError
from coterie_server.turns import Turns, Unfinished
from tests.support.turns import finished

MANY = tuple(f"g{number}" for number in range(1000))


class Asked:
    """Stands in for an exchange."""

    host = "/10.0.0.1"
    abandoned = False

    def __init__(self, message: Any, version: int, principal: Principal = ANONYMOUS) -> None:
        self.message, self.version, self.principal = message, version, principal
        self.answer: Any = None
        self.closed = ""
        self.takes_turns = False
        self._complete: Callable[[Any], Any] = lambda answer: answer

    def narrow(self, message: Any, complete: Callable[[Any], Any]) -> None:
        """Ask for less."""
        self.message, self._complete = message, complete

    def take_turns(self) -> None:
        """Have nothing further taken meanwhile."""
        self.takes_turns = True

    def when_gone(self, forget: Callable[[Asked], object]) -> None:
        """Note how the request is forgotten."""
        self.forget = forget

    def reply(self, message: Any) -> None:
        """Take the answer."""
        self.answer = finished(self._complete(message))

    def close(self, why: str) -> None:
        """Note why there is no answer."""
        self.closed = why


class Desk:
    """An access control with routes that note what comes."""

    def __init__(self, topics: object = None) -> None:
        self.access = Access(AccessConfig(super_users=frozenset({"User:root"})))
        self.access.read(Rights())
        self.waiting: list[Callable[[], None]] = []
        self.passed: list[Any] = []
        assert self.access.authorizer is not None
        control = AccessControl(
            self.access.authorizer,
            self.access,
            cast(KnownTopics, topics or _NoTopics()),
            Clock(),
            Turns(self.waiting.append),
            TroubleLog(lambda: 0),
        )
        kinds = (
            m.HeartbeatRequest,
            m.ApiVersionsRequest,
            m.DeleteGroupsRequest,
            m.DeleteTopicsRequest,
        )
        routes: dict[type[Any], Callable[[Exchange], None]] = dict.fromkeys(kinds, self._pass)
        self.routes = control.controlled(routes)

    def _pass(self, exchange: Exchange) -> None:
        self.passed.append(exchange.message)

    def take(self, asked: Asked) -> Asked:
        """Take a request, and let the loop turn until it is dealt with."""
        self.routes[type(asked.message)](cast(Exchange, asked))
        while self.waiting:
            self.waiting.pop(0)()
        return asked


class _NoTopics:
    is_certain = True


class _UnreadableTopics:
    is_certain = False

    async def refresh(self) -> None:
        raise StoreError("the database does not answer")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def beat() -> m.HeartbeatRequest:
    """A request that needs a right."""
    return m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_requests_pass_or_are_refused() -> None:
    desk = Desk()
    for principal in (Principal("User", "root"), Principal(NODE_KIND, "2")):
        asked = desk.take(Asked(beat(), 4, principal))
        assert asked.answer is None
    assert desk.passed == [beat()] * 2
    refused = desk.take(Asked(beat(), 4))
    assert refused.answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert desk.passed == [beat()] * 2


def test_nothing_is_allowed_before_the_rights_are_known() -> None:
    desk = Desk()
    desk.access.is_known = False
    asked = desk.take(Asked(beat(), 4, Principal("User", "root")))
    assert (asked.closed, desk.passed) == ("who may do what can't be read just now", [])


def test_what_comes_before_authentication_passes_always() -> None:
    desk = Desk()
    desk.access.is_known = False
    desk.take(Asked(m.ApiVersionsRequest(), 3))
    assert desk.passed == [m.ApiVersionsRequest()]


def test_very_many_names_are_looked_at_in_turns() -> None:
    desk = Desk()
    asked = Asked(m.DeleteGroupsRequest(groups_names=MANY), 2)
    desk.routes[m.DeleteGroupsRequest](cast(Exchange, asked))
    assert len(desk.waiting) == 1  # the answer is not made yet
    assert asked.takes_turns
    while desk.waiting:
        desk.waiting.pop(0)()
    assert len(asked.answer.results) == len(MANY)


def test_very_many_names_of_a_client_that_has_gone_are_looked_at_no_more() -> None:
    desk = Desk()
    asked = Asked(m.DeleteGroupsRequest(groups_names=MANY), 2)
    desk.routes[m.DeleteGroupsRequest](cast(Exchange, asked))
    asked.forget(asked)
    while desk.waiting:
        desk.waiting.pop(0)()
    assert asked.answer is None


@pytest.mark.asyncio
async def test_many_changes_that_meet_the_same_trouble_are_one_line_of_the_log() -> None:
    desk = Desk(_UnreadableTopics())
    message = m.DeleteTopicsRequest(topic_names=("t",), timeout_ms=0)
    with structlog.testing.capture_logs() as logs:
        asked = [desk.take(Asked(message, 5, Principal("User", "root"))) for _ in range(100)]
        await asyncio.sleep(0)
    assert {each.closed for each in asked} == {"topics can't be read just now"}
    assert [line["event"] for line in logs] == ["the topics can't be read"]


def test_a_bug_in_a_later_turn_leaves_no_client_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(*_: object) -> Any:
        yield
        raise AssertionError("a bug")

    monkeypatch.setattr(access_control, "screen", lambda *_: Unfinished(rule()))
    asked = Desk().take(Asked(beat(), 4))
    assert asked.closed == "the server failed"
