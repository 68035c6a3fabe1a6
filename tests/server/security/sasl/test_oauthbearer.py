"""OAUTHBEARER: what is said around a token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security import Principal
from coterie_server.security.sasl import (
    Accepted,
    Challenge,
    LoginRefusedError,
    OAuthBearerConversation,
    ShownToken,
    TokenRefusedError,
)

REFUSAL = b'{"status": "invalid_token"}'


def verify(shown: str) -> ShownToken:
    if shown != "a.b.c":
        raise TokenRefusedError("signature does not fit")
    return ShownToken("ann", 60_000)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=ann,\x01auth=bearer   a.b.c\x01\x01",
        b"n,,\x01host=example\x01auth=Bearer a.b.c\x01port=9092\x01\x01",
    ],
)
def test_token_is_accepted(message: bytes) -> None:
    accepted = OAuthBearerConversation(verify).respond(message)
    assert accepted == Accepted(Principal("User", "ann"), lifetime_ms=60_000)


@pytest.mark.parametrize("acknowledgement", [b"\x01", b"n,,\x01auth=Bearer a.b.c\x01\x01", b""])
def test_refusal_is_told_first_and_then_final(acknowledgement: bytes) -> None:
    server = OAuthBearerConversation(verify)
    challenge = server.respond(b"n,,\x01auth=Bearer x.y.z\x01\x01")
    assert isinstance(challenge, Challenge)
    assert challenge.token == REFUSAL
    with pytest.raises(LoginRefusedError, match="signature") as caught:
        server.respond(acknowledgement)
    assert caught.value.told == REFUSAL.decode()


def test_client_may_not_ask_to_act_for_another() -> None:
    with pytest.raises(LoginRefusedError) as caught:
        OAuthBearerConversation(verify).respond(b"n,a=root,\x01auth=Bearer a.b.c\x01\x01")
    assert "authorization id (root)" in str(caught.value.told)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\xff",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer x.y.z\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"auth=Bearer a.b.c",
    ],
)
def test_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        OAuthBearerConversation(verify).respond(message)
    assert caught.value.told is None


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(message: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        OAuthBearerConversation(verify).respond(message)
