"""Finding the group's coordinator, and finding it again."""

from __future__ import annotations

from coterie_client.membership.actions import Failure, FailureKind
from coterie_client.membership.events import CoordinatorFound, CoordinatorLost, RetryPlanned
from coterie_client.membership.ground import Ground
from coterie_client.membership.verdicts import Verdict, verdict_of
from coterie_client.wire.addresses import ANY, Lane, NodeAddress
from coterie_protocol.errors import error_for
from coterie_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

__all__ = ["Finder"]


class Finder:
    """Knows the coordinator's address, or looks for it."""

    def __init__(self, ground: Ground) -> None:
        self._config = ground.config
        self._post = ground.post
        self._fail = ground.fail
        self._backoff = ground.backoff()
        self._ticket: int | None = None
        self._next_ms: int | None = None
        self._has_served = False
        self.address: NodeAddress | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When to look again, if nobody is asked right now."""
        return self._next_ms if self.address is None and self._ticket is None else None

    def confirm(self) -> None:
        """The node that is thought to coordinate the group does."""
        self._backoff.reset()
        self._has_served = True

    def forget(self, reason: str, now_ms: int, node: NodeAddress | None = None) -> None:
        """The node that was thought to coordinate the group does not, or not any more.

        What comes late from a node that was forgotten before is no news.
        """
        if self.address is None or node not in (None, self.address):
            return
        lost = CoordinatorLost(node=str(self.address), reason=reason, had_served=self._has_served)
        self._post.report(lost)
        self.address, self._has_served = None, False
        # It often takes a moment until there is another, so the first question waits a little too.
        self._next_ms = now_ms + self._backoff.next_ms()

    def advance(self, now_ms: int) -> None:
        """Ask, if it is time to."""
        if self.address is not None or self._ticket is not None:
            return
        if self._next_ms is not None and now_ms < self._next_ms:
            return
        # By one key and not by a list of them: a version that every broker knows.
        message = FindCoordinatorRequest(key=self._config.group)
        self._ticket = self._post.send(
            message, ANY, Lane.KEEPALIVE, self._config.request_timeout_ms, self._answered
        )

    def _answered(self, answer: FindCoordinatorResponse | Failure, now_ms: int) -> None:
        self._ticket = None
        if isinstance(answer, Failure):
            self._failed(answer, now_ms)
            return
        verdict = verdict_of(answer.error_code)
        if verdict is Verdict.FINE:
            self.address = NodeAddress(answer.host, answer.port)
            self._post.report(CoordinatorFound(node=str(self.address)))
            return
        error = error_for(answer.error_code, answer.error_message or None)
        if verdict is Verdict.FATAL:
            self._fail(error)
            return
        self._retry(str(error), now_ms)

    def _failed(self, failure: Failure, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            self._fail(failure.reason)
            return
        self._retry(str(failure), now_ms)

    def _retry(self, reason: str, now_ms: int) -> None:
        delay_ms = self._backoff.next_ms()
        self._next_ms = now_ms + delay_ms
        what = "look for the coordinator"
        self._post.report(RetryPlanned(what=what, reason=reason, delay_ms=delay_ms))
