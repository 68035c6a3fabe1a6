"""What a connection may say before its client is known, and afterwards, compared with Kafka's.

Kafka's side is its `SaslServerAuthenticator`: what it does with each request in each state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import API_VERSIONS, ApiKey, encode_request, encode_response
from coterie_protocol import messages as m
from coterie_server.security import ANONYMOUS, Principal
from coterie_server.security.authentication import (
    Admitted,
    Authentication,
    Failure,
    Outcome,
    Reply,
    SaslTerms,
    State,
)
from coterie_server.security.sasl import Accepted, Challenge, Check, LoginRefusedError, Step

ANN, BOB = Principal("User", "ann"), Principal("User", "bob")
NOW_MS = 5_000_000
NONE, UNSUPPORTED, ILLEGAL, FAILED = 0, 33, 34, 58


def changed() -> None:
    """Say that what proved it is the user's no more."""
    raise LoginRefusedError("changed meanwhile", told="No.")


@dataclass
class Script:
    """A conversation that does what the token says."""

    lifetime_ms: int | None = None
    heard: list[bytes] = field(default_factory=list)

    def respond(self, token: bytes) -> Step:
        self.heard.append(token)
        if token == b"more":
            return Challenge(b"challenge")
        if token == b"lost":
            error = LoginRefusedError("forged", is_logged=True)
            return Challenge(b"no", error)
        if token == b"slow":
            return Check(lambda: Accepted(ANN))
        if token == b"changed":
            return Accepted(ANN, confirm=changed)
        if token == b"told":
            raise LoginRefusedError("wrong", told="You know why.", user="ann")
        if token in (b"ann", b"bob"):
            return Accepted(Principal("User", token.decode()), b"bye", self.lifetime_ms)
        raise LoginRefusedError("wrong", user="ann")


def terms(session_ms: int = 0, lifetime_ms: int | None = None) -> SaslTerms:
    def make() -> Script:
        return Script(lifetime_ms)

    offered = dict.fromkeys(("PLAIN", "SCRAM-SHA-256"), make)
    return SaslTerms(offered, {"COTERIE-NODE": make}, dict.fromkeys(offered, session_ms))


def versions(version: int = 3, name: str = "test") -> bytes:
    message = m.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return frame(message, version)


def newer_versions() -> bytes:
    """Of a version that is not there yet."""
    changed = bytearray(versions())
    changed[2:4] = (99).to_bytes(2)
    return bytes(changed)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return frame(m.SaslHandshakeRequest(mechanism=mechanism), version)


def token(auth_bytes: bytes, version: int = 2) -> bytes:
    return frame(m.SaslAuthenticateRequest(auth_bytes=auth_bytes), version)


def metadata() -> bytes:
    return frame(m.MetadataRequest(topics=()), 4)


def frame(message: Any, version: int) -> bytes:
    return encode_request(message, version, 7, "client")[4:]


def brought_to(state: State, handshake_version: int = 1) -> Authentication:
    """A connection in a state."""
    started = Authentication(terms(session_ms=60_000))
    steps: dict[State, list[bytes]] = {
        State.INITIAL: [],
        State.VERSIONS_OR_HANDSHAKE: [newer_versions()],
        State.HANDSHAKE: [versions()],
        State.TOKENS: [handshake(version=handshake_version)],
        State.COMPLETE: [handshake(), token(b"ann")],
        State.OTHER_MECHANISM: [handshake(), token(b"ann"), handshake("SCRAM-SHA-256")],
    }
    for each in steps[state]:
        started.receive(each, NOW_MS)
    assert started.state is state
    return started


def error_of(outcome: Outcome) -> int | None:
    message = outcome.message if isinstance(outcome, Reply | Failure) else None
    code: int | None = getattr(message, "error_code", None)
    return code


START, AGAIN, ASKED, TOKENS, OTHER, KNOWN = (
    State.INITIAL,
    State.VERSIONS_OR_HANDSHAKE,
    State.HANDSHAKE,
    State.TOKENS,
    State.OTHER_MECHANISM,
    State.COMPLETE,
)
#: Answered like any request; answered here; closed after a while; closed at once.
LET, SAID, LATER, NOW = "let", "said", "closed later", "closed now"
GARBAGE, UNKNOWN_API = b"\x60\x82garbage", b"\x03\xe7\0\0\0\0\0\x07\xff\xff"
UNREADABLE = handshake()[:-3]

#: State, frame, and as Kafka does: what becomes of it, the error that is told, the next state.
KAFKA: list[tuple[State, bytes, str, int | None, State]] = [
    *((START, versions(each), LET, None, ASKED) for each in API_VERSIONS[ApiKey.API_VERSIONS]),
    *((AGAIN, versions(each), LET, None, ASKED) for each in API_VERSIONS[ApiKey.API_VERSIONS]),
    *(
        (ASKED, versions(each), NOW, None, State.FAILED)
        for each in API_VERSIONS[ApiKey.API_VERSIONS]
    ),
    (START, newer_versions(), LET, None, AGAIN),
    (AGAIN, newer_versions(), LET, None, AGAIN),
    (ASKED, newer_versions(), NOW, None, State.FAILED),
    (START, versions(name="no name!"), LET, None, AGAIN),
    (AGAIN, versions(name="no name!"), LET, None, AGAIN),
    (START, versions()[:-4], NOW, None, State.FAILED),
    *((each, handshake(version=0), SAID, NONE, TOKENS) for each in (START, AGAIN, ASKED)),
    *((each, handshake(version=1), SAID, NONE, TOKENS) for each in (START, AGAIN, ASKED)),
    *((each, handshake("COTERIE-NODE"), SAID, NONE, TOKENS) for each in (START, AGAIN, ASKED)),
    *(
        (each, handshake("GSSAPI", 0), LATER, UNSUPPORTED, State.FAILED)
        for each in (START, AGAIN, ASKED)
    ),
    *(
        (each, handshake("GSSAPI"), LATER, UNSUPPORTED, State.FAILED)
        for each in (START, AGAIN, ASKED)
    ),
    *(
        (each, handshake("plain"), LATER, UNSUPPORTED, State.FAILED)
        for each in (START, AGAIN, ASKED)
    ),
    *((each, UNREADABLE, NOW, None, State.FAILED) for each in (START, AGAIN, ASKED)),
    *((each, metadata(), NOW, None, State.FAILED) for each in (START, AGAIN, ASKED)),
    *((each, token(b"ann"), NOW, None, State.FAILED) for each in (START, AGAIN, ASKED)),
    *((START, each, NOW, None, State.FAILED) for each in (GARBAGE, UNKNOWN_API, b"")),
    *((AGAIN, each, NOW, None, State.FAILED) for each in (GARBAGE, UNKNOWN_API, b"")),
    *((ASKED, each, NOW, None, State.FAILED) for each in (GARBAGE, UNKNOWN_API, b"")),
    *((TOKENS, token(b"ann", each), SAID, NONE, KNOWN) for each in (0, 1, 2)),
    *((TOKENS, token(b"more", each), SAID, NONE, TOKENS) for each in (0, 1, 2)),
    *((TOKENS, token(b"wrong", each), LATER, FAILED, State.FAILED) for each in (0, 1, 2)),
    # Kafka tells these ILLEGAL_SASL_STATE before it closes; here nothing of them is read.
    *((TOKENS, each, LATER, None, State.FAILED) for each in (versions(), handshake(), metadata())),
    *((TOKENS, each, NOW, None, State.FAILED) for each in (GARBAGE, b"", token(b"ann")[:-2])),
    (OTHER, token(b"ann"), LATER, None, State.FAILED),
    (OTHER, handshake(), LATER, None, State.FAILED),
    *(
        (KNOWN, each, LET, None, KNOWN)
        for each in (versions(), metadata(), token(b"ann"), GARBAGE, b"")
    ),
    (KNOWN, handshake(), SAID, NONE, TOKENS),
    (KNOWN, handshake("SCRAM-SHA-256"), SAID, NONE, OTHER),
    (KNOWN, handshake("GSSAPI"), NOW, None, State.FAILED),
]


@pytest.mark.parametrize(("state", "given_frame", "how", "error", "next_state"), KAFKA)
def test_every_request_in_every_state(
    state: State, given_frame: bytes, how: str, error: int | None, next_state: State
) -> None:
    authentication = brought_to(state)
    outcome = authentication.receive(given_frame, NOW_MS)
    assert (kind_of(outcome), error_of(outcome)) == (how, error)
    assert authentication.state is next_state


def kind_of(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return LATER if outcome.is_delayed else NOW
    return LET if isinstance(outcome, Admitted) else SAID


def test_every_state_that_awaits_a_frame_is_in_the_table() -> None:
    assert {each[0] for each in KAFKA} == set(State) - {State.CHECKING, State.FAILED}


def test_mechanisms_are_listed_in_their_order_without_the_hidden_ones() -> None:
    for mechanism in ("GSSAPI", "PLAIN", "COTERIE-NODE"):
        outcome = brought_to(State.HANDSHAKE).receive(handshake(mechanism), NOW_MS)
        assert isinstance(outcome, Reply | Failure)
        assert outcome.message.mechanisms == ("PLAIN", "SCRAM-SHA-256")


def test_tokens_after_the_first_handshake_version_are_bare() -> None:
    authentication = brought_to(State.TOKENS, handshake_version=0)
    assert authentication.receive(b"more", NOW_MS) == Reply(b"challenge")
    assert authentication.receive(b"ann", NOW_MS) == Reply(b"bye")
    assert (authentication.state, authentication.principal) == (State.COMPLETE, ANN)


def test_refusal_of_a_bare_token_is_not_answered() -> None:
    outcome = brought_to(State.TOKENS, handshake_version=0).receive(b"wrong", NOW_MS)
    assert isinstance(outcome, Failure)
    assert (outcome.message, outcome.is_delayed, outcome.user) == (None, True, "ann")


@pytest.mark.parametrize(
    ("auth_bytes", "told"),
    [
        (
            b"wrong",
            (
                "Authentication failed during authentication due to invalid credentials with SASL"
                " mechanism PLAIN"
            ),
        ),
        (b"told", "You know why."),
    ],
)
def test_refusal_says_what_the_client_may_know(auth_bytes: bytes, told: str) -> None:
    outcome = brought_to(State.TOKENS).receive(token(auth_bytes), NOW_MS)
    assert isinstance(outcome, Failure)
    assert outcome.message.error_message == told
    assert (outcome.why, outcome.user, outcome.mechanism) == ("wrong", "ann", "PLAIN")


@pytest.mark.parametrize("quoted", ["x" * 40_000, "\ud800"], ids=["too long", "no text"])
def test_refusal_can_be_answered_whatever_it_quotes(quoted: str) -> None:
    class Quoting:
        def respond(self, _token: bytes) -> Step:
            raise LoginRefusedError("wrong", told=f"not {quoted}")

    asked = Authentication(SaslTerms({"PLAIN": Quoting}))
    asked.receive(handshake(), NOW_MS)
    outcome = asked.receive(token(b""), NOW_MS)
    assert isinstance(outcome, Failure)
    assert outcome.message.error_message.startswith("not ")
    assert encode_response(outcome.message, 2, 0)


@pytest.mark.parametrize("name", ["x" * 32_763, "\ud800"], ids=["too long", "no text"])
def test_client_with_a_name_that_no_store_can_keep_is_refused(name: str) -> None:
    class Named:
        def respond(self, _token: bytes) -> Step:
            return Accepted(Principal("User", name))

    asked = Authentication(SaslTerms({"PLAIN": Named}))
    asked.receive(handshake(), NOW_MS)
    outcome = asked.receive(token(b""), NOW_MS)
    assert isinstance(outcome, Failure)
    assert error_of(outcome) == FAILED
    assert asked.principal == ANONYMOUS


def test_message_that_would_take_long_to_read_is_refused_unread() -> None:
    script = Script()
    asked = Authentication(SaslTerms({"PLAIN": lambda: script}))
    asked.receive(handshake(), NOW_MS)
    outcome = asked.receive(token(b"x" * 131_073), NOW_MS)
    assert isinstance(outcome, Failure)
    assert error_of(outcome) == FAILED
    assert script.heard == []


def test_nobody_is_known_before_the_end() -> None:
    for state in (State.INITIAL, State.HANDSHAKE, State.TOKENS):
        assert brought_to(state).principal == ANONYMOUS
    failed = brought_to(State.TOKENS)
    failed.receive(token(b"wrong"), NOW_MS)
    assert failed.principal == ANONYMOUS


def test_check_is_run_elsewhere_and_then_resumed() -> None:
    authentication = brought_to(State.TOKENS)
    check = authentication.receive(token(b"slow"), NOW_MS)
    assert isinstance(check, Check)
    assert authentication.state is State.CHECKING
    with pytest.raises(AssertionError):
        authentication.receive(token(b"ann"), NOW_MS)
    reply = authentication.resume(check.run(), NOW_MS)
    assert isinstance(reply, Reply)
    assert (authentication.state, authentication.principal) == (State.COMPLETE, ANN)


def test_proof_that_is_good_no_more_is_a_refusal() -> None:
    authentication = brought_to(State.TOKENS)
    outcome = authentication.receive(token(b"changed"), NOW_MS)
    assert isinstance(outcome, Failure)
    assert outcome.message.error_message == "No."
    assert authentication.principal == ANONYMOUS


def test_proof_that_is_good_no_more_once_it_is_checked_is_a_refusal() -> None:
    authentication = brought_to(State.TOKENS)
    check = authentication.receive(token(b"slow"), NOW_MS)
    assert isinstance(check, Check)
    outcome = authentication.resume(replace(check.run(), confirm=changed), NOW_MS)
    assert isinstance(outcome, Failure)
    assert authentication.principal == ANONYMOUS


def test_check_that_fails_is_a_refusal() -> None:
    authentication = brought_to(State.TOKENS)
    authentication.receive(token(b"slow"), NOW_MS)
    outcome = authentication.resume(LoginRefusedError("wrong password", told="No."), NOW_MS)
    assert isinstance(outcome, Failure)
    assert outcome.message.error_message == "No."


def test_login_that_is_lost_is_known_before_the_clients_last_word() -> None:
    """It may never say it."""
    reply = brought_to(State.TOKENS).receive(token(b"lost"), NOW_MS)
    assert isinstance(reply, Reply)
    assert reply.refusal is not None
    assert (reply.refusal.why, reply.refusal.mechanism) == ("forged", "PLAIN")


# -- sessions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session_ms", "credential_ms", "lifetime_ms"),
    [
        (0, None, None),
        (60_000, None, 60_000),
        (0, 30_000, 30_000),
        (60_000, 30_000, 30_000),
        (60_000, 90_000, 60_000),
        (60_000, -5_000, 0),
    ],
)
def test_session_ends_with_the_credential_or_by_the_setting(
    session_ms: int, credential_ms: int | None, lifetime_ms: int | None
) -> None:
    authentication = Authentication(terms(session_ms, credential_ms))
    authentication.receive(handshake(), NOW_MS)
    reply = authentication.receive(token(b"ann"), NOW_MS)
    assert isinstance(reply, Reply)
    assert reply.message.session_lifetime_ms == (lifetime_ms or 0)
    expected = None if lifetime_ms is None else NOW_MS + lifetime_ms
    assert authentication.expires_ms == expected


def test_request_after_the_session_is_refused_at_once() -> None:
    authentication = brought_to(State.COMPLETE)
    assert isinstance(authentication.receive(metadata(), NOW_MS + 60_000), Admitted)
    outcome = authentication.receive(metadata(), NOW_MS + 60_001)
    assert isinstance(outcome, Failure)
    assert (outcome.is_expired, outcome.is_delayed, outcome.message) == (True, False, None)


def test_client_may_authenticate_again_after_its_session() -> None:
    authentication = brought_to(State.COMPLETE)
    later_ms = NOW_MS + 90_000
    authentication.receive(handshake(), later_ms)
    authentication.receive(token(b"ann"), later_ms)
    assert (authentication.state, authentication.principal) == (State.COMPLETE, ANN)
    assert authentication.expires_ms == later_ms + 60_000


def test_client_stays_who_it_was() -> None:
    authentication = brought_to(State.COMPLETE)
    authentication.receive(handshake(), NOW_MS)
    outcome = authentication.receive(token(b"bob"), NOW_MS)
    assert isinstance(outcome, Failure)
    assert outcome.message.error_code == FAILED
    assert outcome.message.error_message == (
        "Cannot change principals during re-authentication from User.ann: User.bob"
    )
    assert authentication.principal == ANN


def test_refusal_of_a_client_that_was_known_says_so() -> None:
    authentication = brought_to(State.COMPLETE)
    authentication.receive(handshake(), NOW_MS)
    outcome = authentication.receive(token(b"wrong"), NOW_MS)
    assert isinstance(outcome, Failure)
    assert "during re-authentication" in outcome.message.error_message


def test_second_reauthentication_within_a_second_is_handled_as_any_request() -> None:
    authentication = brought_to(State.COMPLETE)
    for each in (handshake(), token(b"ann")):
        assert isinstance(authentication.receive(each, NOW_MS), Reply)
    assert isinstance(authentication.receive(handshake(), NOW_MS + 999), Admitted)
    assert isinstance(authentication.receive(handshake(), NOW_MS + 1000), Reply)


def test_client_whose_session_has_no_end_can_not_begin_again() -> None:
    authentication = Authentication(terms())
    for each in (handshake(), token(b"ann")):
        authentication.receive(each, NOW_MS)
    assert isinstance(authentication.receive(handshake(), NOW_MS), Admitted)


@given(st.lists(st.sampled_from([each[1] for each in KAFKA]), max_size=8))
def test_nothing_but_versions_is_let_through_to_an_unknown_client(frames: list[bytes]) -> None:
    authentication = Authentication(terms())
    for each in frames:
        if authentication.state is State.FAILED:
            return
        was_known = authentication.state is State.COMPLETE
        outcome = authentication.receive(each, NOW_MS)
        if isinstance(outcome, Admitted):
            assert was_known or each[:2] == bytes((0, ApiKey.API_VERSIONS))


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_have_an_outcome(frames: list[bytes]) -> None:
    authentication = Authentication(terms())
    for each in frames:
        if authentication.state is not State.FAILED:
            authentication.receive(each, NOW_MS)
            assert authentication.principal == ANONYMOUS
