"""Authentication on connections: who has to authenticate, and what became of it.

The rules are those of `coterie_server.security.authentication`.  A guard stands before a connection
that they are still to be asked about; a connection without one costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from coterie_protocol import ApiKey, Request
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie_server.log.logger import get_logger, shortened
from coterie_server.net.exchange import STOPPING, Exchange, ReplyPath
from coterie_server.net.stats import CloseReason
from coterie_server.security.authentication import (
    Admitted,
    Authentication,
    Failure,
    Outcome,
    Reply,
    SaslTerms,
    State,
)
from coterie_server.security.sasl import Accepted, Check, LoginRefusedError

if TYPE_CHECKING:
    from collections import deque

    from coterie_server.net.check_queue import Checked, CheckQueue
    from coterie_server.net.incoming import Incoming
    from coterie_server.net.limits import Limits
    from coterie_server.net.strangers import Strangers
    from coterie_server.net.time_limits import TimeLimits
    from coterie_server.security import Principal

__all__ = ["Authenticator", "Guard", "Logins", "guard_for", "take_login"]

_log = get_logger(__name__)

#: What stands for a bare token, of which there is no request.
_NO_REQUEST: Final = Request(ApiKey.SASL_AUTHENTICATE, 0, 0, None, None)
_SIZE_BYTES: Final = 4
#: How much is logged of a name that a client made up.
_NAME_MAX: Final = 100

_ALREADY: Final = "SaslAuthenticate request received after successful authentication"


class GuardedPath(ReplyPath, Protocol):
    """What a guard needs of its connection."""

    principal: Principal
    guard: Guard | None
    exchanges: deque[Exchange]
    incoming: Incoming
    times: TimeLimits
    strangers: Strangers
    #: How many requests may be in flight.
    window: int

    def log(self, event: str, *, level: str = "warning", **values: object) -> None:
        """Log something that the client caused."""

    def end(self, reason: CloseReason) -> None:
        """Close, for a reason that was logged."""


class Logins:
    """What all listeners share: when they can begin, and who has to wait."""

    def __init__(
        self,
        checks: CheckQueue,
        call_later: Callable[[float, Callable[[], None]], object],
        *,
        failure_delay_ms: int,
    ) -> None:
        self.checks = checks
        self.call_later = call_later
        self.failure_delay_ms = failure_delay_ms
        #: Whether the users are known.  Before that, none could be told from one that there isn't.
        self.is_open = False
        self._waiting: dict[Exchange, Callable[[], None]] = {}
        self._is_closed = False

    def wait(self, exchange: Exchange, go_on: Callable[[], None]) -> None:
        """Have something done when the users are known, unless the client has gone."""
        if self._is_closed:
            exchange.close(STOPPING)
            return
        self._waiting[exchange] = go_on
        exchange.when_gone(self._waiting.pop)

    def open(self) -> None:
        """Begin: the users are known."""
        self.is_open = True
        while self._waiting:
            exchange = next(iter(self._waiting))
            go_on = self._waiting.pop(exchange)
            exchange.when_gone(None)
            go_on()

    def close(self) -> None:
        """Hang up on those who wait, as the node is stopped before it was ready."""
        self._is_closed = True
        for exchange in list(self._waiting):
            exchange.close(STOPPING)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """How the clients of one listener authenticate."""

    name: str
    logins: Logins
    terms: SaslTerms
    #: Whether they have to.
    is_required: bool
    #: The largest frame before they have.
    max_receive_bytes: int
    limits: Limits
    now: Callable[[], float]


def guard_for(path: GuardedPath, authenticator: Authenticator | None) -> Guard | None:
    """What stands before a new connection, if anything does."""
    if authenticator is None or not authenticator.is_required:
        return None
    return Guard(path, authenticator)


def take_login(path: GuardedPath, authenticator: Authenticator | None, exchange: Exchange) -> None:
    """Take a request to authenticate of a client that is known, or need not be.

    Other nodes authenticate wherever clients need not.
    """
    message, illegal = exchange.message, ErrorCode.ILLEGAL_SASL_STATE
    if path.gone:
        return
    if not isinstance(message, SaslHandshakeRequest):
        exchange.reply(
            SaslAuthenticateResponse(error_code=illegal, error_message=_ALREADY, auth_bytes=b"")
        )
    elif (
        authenticator is None
        or authenticator.is_required
        or message.mechanism not in authenticator.terms.hidden
    ):
        exchange.reply(SaslHandshakeResponse(error_code=illegal, mechanisms=()))
    else:
        path.guard = guard = Guard(path, authenticator)
        guard.begin(exchange)


@final
class Guard:
    """Stands before a connection until its client is known, and while its session is limited."""

    __slots__ = ("_arrived_s", "_authentication", "_authenticator", "_path")

    def __init__(self, path: GuardedPath, authenticator: Authenticator) -> None:
        self._path = path
        self._authenticator = authenticator
        self._authentication = Authentication(authenticator.terms, path.principal)
        self._arrived_s = 0.0
        self._bound()

    def takes(self, payload: bytes, received_ms: int) -> bool:
        """Take a frame, unless it is to be handled like those of any connection."""
        authentication, logins = self._authentication, self._authenticator.logins
        self._arrived_s = self._authenticator.now()
        if authentication.awaits_token and not logins.is_open:
            held = self._hold(_NO_REQUEST, received_ms)
            logins.wait(held, lambda: self._go_on(held, payload))
            return True
        outcome = authentication.receive(payload, self._now_ms)
        if isinstance(outcome, Admitted):
            return False
        exchange = self._hold(authentication.request or _NO_REQUEST, received_ms)
        self._act(exchange, outcome)
        return True

    def begin(self, exchange: Exchange) -> None:
        """Take a handshake that was handed on like other requests."""
        self._arrived_s = self._authenticator.now()
        self._act(exchange, self._authentication.begin(exchange.request))

    def _bound(self) -> None:
        """As with Kafka, one small frame at a time until the client is known."""
        path, limits = self._path, self._authenticator.limits
        is_known = self._authentication.state is State.COMPLETE
        path.window = limits.max_requests_in_flight if is_known else 1
        times, now = path.times, self._authenticator.now()
        if is_known:
            times.unknown_since = None
        elif times.unknown_since is None:
            times.unknown_since = now
            times.watch(now, limits.login_timeout_ms)
        largest, confined = limits.socket_request_max_bytes, self._authenticator.max_receive_bytes
        path.incoming.limit_frames(largest if is_known else min(largest, confined))

    @property
    def _now_ms(self) -> int:
        return int(self._authenticator.now() * 1000)

    def _hold(self, request: Request, received_ms: int) -> Exchange:
        """Hold the connection's next place until there is an answer."""
        exchange = Exchange(self._path, request, received_ms)
        self._path.exchanges.append(exchange)
        return exchange

    def _go_on(self, held: Exchange, payload: bytes) -> None:
        """Take a token that has waited."""
        self._arrived_s = self._authenticator.now()
        outcome = self._authentication.receive(payload, self._now_ms)
        assert not isinstance(outcome, Admitted)
        held.request = self._authentication.request or _NO_REQUEST
        held.version = held.request.api_version
        self._act(held, outcome)

    def _act(self, exchange: Exchange, outcome: Outcome) -> None:
        if isinstance(outcome, Reply):
            if outcome.refusal is not None:
                self._log(outcome.refusal)
            self._reply(exchange, outcome.message)
        elif isinstance(outcome, Check):
            authenticator = self._authenticator
            asker = authenticator.name, self._path.peer.address
            job = authenticator.logins.checks.add(
                asker, outcome, lambda checked: self._checked(exchange, checked)
            )
            exchange.when_gone(lambda _: job.cancel())
        elif isinstance(outcome, Failure):
            self._fail(exchange, outcome)

    def _checked(self, exchange: Exchange, checked: Checked) -> None:
        exchange.when_gone(None)
        if not isinstance(checked, Accepted | LoginRefusedError):
            _log.error("a bug: login failed, connection closed", exc_info=checked)
            self._path.end(CloseReason.BUG)
            return
        self._act(exchange, self._authentication.resume(checked, self._now_ms))

    def _reply(self, exchange: Exchange, message: Any) -> None:  # noqa: ANN401  # a response or a token
        authentication, path = self._authentication, self._path
        if authentication.state is State.COMPLETE:
            path.principal = authentication.principal
            path.strangers.discard(path)
            # Not a line of the registry's, which counts them to bound what hostile clients write.
            _log.debug(
                "client authenticated", peer=str(path.peer), user=_shortened(str(path.principal))
            )
            if authentication.expires_ms is None:
                path.guard = None
        self._bound()
        if isinstance(message, bytes):
            exchange.frame = len(message).to_bytes(_SIZE_BYTES) + message
            path.flush(len(exchange.frame))
        else:
            exchange.reply(message)

    def _fail(self, exchange: Exchange, failure: Failure) -> None:
        path, logins = self._path, self._authenticator.logins
        if failure.is_expired:
            path.log("connection closed", level="info", reason=str(CloseReason.SESSION_OVER))
            path.end(CloseReason.SESSION_OVER)
            return
        if not failure.is_logged:
            self._log(failure)
        # Counted from when the token came, so that the time tells nothing of how it was checked.
        due_s = self._arrived_s + logins.failure_delay_ms / 1000
        wait_s = due_s - self._authenticator.now() if failure.is_delayed else 0.0
        if wait_s > 0:
            logins.call_later(wait_s, lambda: self._end(exchange, failure.message))
        else:
            self._end(exchange, failure.message)

    def _log(self, failure: Failure) -> None:
        self._path.log(
            "authentication failed",
            listener=self._authenticator.name,
            why=failure.why,
            user=_shortened(failure.user),
            mechanism=_shortened(failure.mechanism),
        )

    def _end(self, exchange: Exchange, message: Any) -> None:  # noqa: ANN401  # a response, or None
        if message is not None:
            exchange.reply(message)
        self._path.end(CloseReason.AUTHENTICATION)


def _shortened(name: str | None) -> str | None:
    return None if name is None else shortened(name, _NAME_MAX)
