"""The authentication of one connection, as Kafka does it.

    INITIAL -> VERSIONS_OR_HANDSHAKE -> HANDSHAKE -> TOKENS -> CHECKING -> COMPLETE

A client may ask ApiVersions, once with success; then SaslHandshake names a mechanism, and
SaslAuthenticate carries its tokens, or, after version 0 of SaslHandshake, bare frames do.  Anything
else ends the connection.  Where sessions are limited, a client may authenticate again as the same
principal by the same mechanism; once its session is over it has to.

`Authentication` takes whole frames and says what is to become of each: nothing is decoded that a
client has no right to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from coterie_protocol import (
    API_VERSIONS,
    ApiKey,
    ProtocolError,
    Request,
    RequestHeader,
    decode_request,
    decode_request_header,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from coterie_server.security.client_software import is_well_named
from coterie_server.security.principal import ANONYMOUS, Principal
from coterie_server.security.sasl.steps import (
    Accepted,
    Challenge,
    Check,
    Conversation,
    LoginRefusedError,
    Step,
)

__all__ = ["Admitted", "Authentication", "Failure", "Outcome", "Reply", "SaslTerms", "State"]

#: How long a client has to wait, as with Kafka, before it may authenticate once more.
_REAUTHENTICATION_MS: Final = 1000

#: The longest message of a mechanism.  A frame may be several times as long, and what it says takes
#: the event loop some nanoseconds for each byte, or much more where a library looks at it.
_TOKEN_BYTES_MAX: Final = 131_072
#: How much a client is told of why it is refused, as that may quote it.
_TOLD_MAX: Final = 1_000

MakeConversation = Callable[[], Conversation]


class State(Enum):
    """How far a connection has come."""

    #: Nothing was said.
    INITIAL = "initial"
    #: What was said so far was ApiVersions, without success.
    VERSIONS_OR_HANDSHAKE = "versions or handshake"
    #: The versions are known; only SaslHandshake may come.
    HANDSHAKE = "handshake"
    #: A mechanism was agreed on: tokens come.
    TOKENS = "tokens"
    #: A token is being checked; nothing may come.
    CHECKING = "checking"
    #: The client asked for another mechanism than it had authenticated by, and will be refused.
    OTHER_MECHANISM = "other mechanism"
    #: The client is known; its requests are let through.
    COMPLETE = "complete"
    FAILED = "failed"


_TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.INITIAL: frozenset(
        {State.VERSIONS_OR_HANDSHAKE, State.HANDSHAKE, State.TOKENS, State.FAILED}
    ),
    State.VERSIONS_OR_HANDSHAKE: frozenset({State.HANDSHAKE, State.TOKENS, State.FAILED}),
    State.HANDSHAKE: frozenset({State.TOKENS, State.OTHER_MECHANISM, State.FAILED}),
    State.TOKENS: frozenset({State.CHECKING, State.COMPLETE, State.FAILED}),
    State.CHECKING: frozenset({State.COMPLETE, State.FAILED}),
    State.OTHER_MECHANISM: frozenset({State.FAILED}),
    State.COMPLETE: frozenset({State.HANDSHAKE, State.FAILED}),
    State.FAILED: frozenset(),
}

_BEFORE_TOKENS: Final = frozenset({State.INITIAL, State.VERSIONS_OR_HANDSHAKE, State.HANDSHAKE})


@dataclass(frozen=True, slots=True)
class SaslTerms:
    """How the clients of a listener authenticate."""

    #: Makes a conversation, by the name of its mechanism, in the order that clients are told.
    mechanisms: Mapping[str, MakeConversation]
    #: Further mechanisms, of which clients are not told.
    hidden: Mapping[str, MakeConversation] = field(default_factory=dict)
    #: For how long a session lasts at most, by mechanism; 0 for ever.
    session_ms: Mapping[str, int] = field(default_factory=dict)

    def find(self, mechanism: str) -> MakeConversation | None:
        """What makes a conversation by a mechanism; None if it may not be used."""
        return self.mechanisms.get(mechanism) or self.hidden.get(mechanism)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that is handled as any other."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: a response, or a bare token."""

    message: Any
    #: What is to be logged of a login that is lost already, though the client has a last word.
    refusal: Failure | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The connection is to be closed, after an answer if there is one."""

    #: For the log.
    why: str
    message: Any = None
    #: Whether the client has to wait for answer and end, so that guessing costs it time.
    is_delayed: bool = True
    #: Whom the client claimed to be, and by which mechanism, as far as it came to that.
    user: str | None = None
    mechanism: str | None = None
    #: Whether it was nothing but a session that is over.
    is_expired: bool = False
    is_logged: bool = False


Outcome = Admitted | Reply | Check | Failure

_ADMITTED: Final = Admitted()


class Authentication:
    """The state machine; see the top of this module.

    After a `Check` the caller runs it and calls `resume` with what it came to.
    """

    __slots__ = (
        "_began_ms",
        "_conversation",
        "_former",
        "_has_headers",
        "_mechanism",
        "_terms",
        "expires_ms",
        "principal",
        "request",
        "state",
    )

    _conversation: Conversation

    def __init__(self, terms: SaslTerms, principal: Principal = ANONYMOUS) -> None:
        self._terms = terms
        self._mechanism: str | None = None
        self._has_headers = False
        #: Whom and by which mechanism the client was before, if it authenticates again.
        self._former: tuple[Principal, str] | None = None
        #: When it last began to do so.
        self._began_ms: int | None = None
        self.state = State.INITIAL
        self.principal = principal
        #: When the session is over; None for never.
        self.expires_ms: int | None = None
        #: The request that the last outcome is about; None for a bare token.
        self.request: Request | None = None

    @property
    def awaits_token(self) -> bool:
        """Whether the next frame carries a token."""
        return self.state is State.TOKENS

    def receive(self, payload: bytes, now_ms: int) -> Outcome:
        """Take a frame."""
        self.request = None
        if self.state is State.COMPLETE:
            return self._receive_of_known(payload, now_ms)
        if self.state is State.TOKENS:
            return self._receive_token(payload, now_ms)
        if self.state in _BEFORE_TOKENS:
            return self._receive_first(payload)
        if self.state is State.OTHER_MECHANISM:
            assert self._former is not None
            return self._fail(
                f"it asked for {self._mechanism} after it had authenticated by {self._former[1]}"
            )
        raise AssertionError(f"a frame while {self.state.value}")

    def begin(self, request: Request) -> Reply | Failure:
        """Take a SaslHandshake of a client that was let in without one."""
        self.request = request
        return self._handshake(request)

    def resume(self, step: Accepted | LoginRefusedError, now_ms: int) -> Reply | Failure:
        """Go on after a check."""
        if isinstance(step, LoginRefusedError):
            return self._refuse(step)
        return self._accept(step, now_ms)

    # -- before tokens -------------------------------------------------------------------------

    def _receive_first(self, payload: bytes) -> Outcome:
        try:
            header = decode_request_header(payload)
            api = ApiKey(header.api_key)
        except (ProtocolError, ValueError):
            return self._fail("no request", is_delayed=False)
        if api is ApiKey.API_VERSIONS:
            return self._ask_versions(header, payload)
        if api is not ApiKey.SASL_HANDSHAKE:
            return self._fail(f"unexpected {api.title} request", is_delayed=False)
        try:
            self.request = request = decode_request(payload)
        except ProtocolError as error:
            return self._fail(f"unreadable handshake: {error}", is_delayed=False)
        return self._handshake(request)

    def _ask_versions(self, header: RequestHeader, payload: bytes) -> Outcome:
        if self.state is State.HANDSHAKE:
            return self._fail("ApiVersions for a second time", is_delayed=False)
        if header.api_version in API_VERSIONS[ApiKey.API_VERSIONS]:
            try:
                request = decode_request(payload)
            except ProtocolError as error:
                return self._fail(f"unreadable ApiVersions: {error}", is_delayed=False)
            if is_well_named(request.message, request.api_version):
                self._enter(State.HANDSHAKE)
                return _ADMITTED
        if self.state is State.INITIAL:
            self._enter(State.VERSIONS_OR_HANDSHAKE)
        return _ADMITTED  # to be told what is wrong

    def _handshake(self, request: Request) -> Reply | Failure:
        message: SaslHandshakeRequest = request.message
        mechanism, terms = message.mechanism, self._terms
        self._mechanism = mechanism
        self._has_headers = request.api_version >= 1
        offered = tuple(terms.mechanisms)
        make = terms.find(mechanism)
        if make is None and self._former is not None:
            return self._fail("mechanism is not enabled", is_delayed=False)
        if make is None:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            told = SaslHandshakeResponse(error_code=error, mechanisms=offered)
            return self._fail("mechanism is not enabled", told)
        if self._former is not None and self._former[1] != mechanism:
            self._enter(State.OTHER_MECHANISM)
        else:
            self._conversation = make()
            self._enter(State.TOKENS)
        return Reply(SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=offered))

    # -- tokens --------------------------------------------------------------------------------

    def _receive_token(self, payload: bytes, now_ms: int) -> Outcome:
        token = payload
        if self._has_headers:
            try:
                header = decode_request_header(payload)
                if header.api_key != ApiKey.SASL_AUTHENTICATE:
                    return self._fail("unexpected request during SASL authentication")
                self.request = decode_request(payload)
            except ProtocolError as error:
                return self._fail(f"unreadable request: {error}", is_delayed=False)
            token = self.request.message.auth_bytes
        try:
            step = self._respond(token)
        except LoginRefusedError as error:
            return self._refuse(error)
        if isinstance(step, Check):
            self._enter(State.CHECKING)
            return step
        if isinstance(step, Challenge):
            return self._challenge(step)
        return self._accept(step, now_ms)

    def _respond(self, token: bytes) -> Step:
        if len(token) > _TOKEN_BYTES_MAX:
            raise LoginRefusedError(f"a message of {len(token)} bytes")
        return self._conversation.respond(token)

    def _challenge(self, challenge: Challenge) -> Reply:
        reply, error = self._reply(challenge.token), challenge.refusal
        if error is None:
            return reply
        return Reply(reply.message, Failure(str(error), user=error.user, mechanism=self._mechanism))

    def _accept(self, accepted: Accepted, now_ms: int) -> Reply | Failure:
        try:
            accepted.confirm()
        except LoginRefusedError as error:
            return self._refuse(error)
        if not accepted.principal.can_be_stored:
            return self._refuse(LoginRefusedError("its name is too long, or no text"))
        if self._former is not None and accepted.principal != self._former[0]:
            former, now = (
                f"{each.kind}.{each.name}" for each in (self._former[0], accepted.principal)
            )
            told = f"Cannot change principals during re-authentication from {former}: {now}"
            return self._refuse(LoginRefusedError(told, told=told, user=accepted.principal.name))
        assert self._mechanism is not None
        limits = (accepted.lifetime_ms, self._terms.session_ms.get(self._mechanism) or None)
        lifetimes = [max(each, 0) for each in limits if each is not None]
        lifetime_ms = min(lifetimes, default=None)
        self.expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        self.principal = accepted.principal
        self._enter(State.COMPLETE)
        return self._reply(accepted.token, lifetime_ms or 0)

    def _reply(self, token: bytes, lifetime_ms: int = 0) -> Reply:
        if not self._has_headers:
            return Reply(token)
        answer = SaslAuthenticateResponse(
            error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms
        )
        return Reply(answer)

    def _refuse(self, error: LoginRefusedError) -> Failure:
        told = error.told
        if told is None:
            which = "authentication" if self._former is None else "re-authentication"
            told = (
                f"Authentication failed during {which} due to invalid credentials with SASL"
                f" mechanism {self._mechanism}"
            )
        told = told[:_TOLD_MAX].encode(errors="replace").decode()
        message = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told, auth_bytes=b""
        )
        return self._fail(
            str(error),
            message if self._has_headers else None,
            user=error.user,
            is_logged=error.is_logged,
        )

    # -- afterwards ----------------------------------------------------------------------------

    def _receive_of_known(self, payload: bytes, now_ms: int) -> Outcome:
        if self.expires_ms is None:
            return _ADMITTED
        api_key = int.from_bytes(payload[:2], signed=True)
        if api_key == ApiKey.SASL_HANDSHAKE and self._may_begin_again(now_ms):
            assert self._mechanism is not None
            self._began_ms = now_ms
            self._former = (self.principal, self._mechanism)
            self._enter(State.HANDSHAKE)
            return self._receive_first(payload)
        if now_ms > self.expires_ms:
            return self._fail("session is over", is_delayed=False, is_expired=True)
        return _ADMITTED

    def _may_begin_again(self, now_ms: int) -> bool:
        return self._began_ms is None or now_ms - self._began_ms >= _REAUTHENTICATION_MS

    def _fail(
        self,
        why: str,
        message: Any = None,  # noqa: ANN401  # either of two responses
        *,
        is_delayed: bool = True,
        user: str | None = None,
        is_expired: bool = False,
        is_logged: bool = False,
    ) -> Failure:
        self._enter(State.FAILED)
        return Failure(
            why,
            message,
            is_delayed=is_delayed,
            user=user,
            mechanism=self._mechanism,
            is_expired=is_expired,
            is_logged=is_logged,
        )

    def _enter(self, state: State) -> None:
        """The only place where the state changes."""
        if state not in _TRANSITIONS[self.state]:
            raise AssertionError(f"from {self.state.value} to {state.value}")
        self.state = state
