"""PLAIN: passwords, as clients send them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security import Principal, ScramMechanism
from coterie_server.security.sasl import Accepted, Credentials, LoginRefusedError, PlainConversation
from tests.server.security.sasl.logins import SHA_256, SHA_512, credentials

INVALID = "Authentication failed: Invalid username or password"


def log_in(found: Credentials, token: bytes) -> Accepted:
    return PlainConversation(found).respond(token).run()


@pytest.mark.parametrize("mechanisms", [(SHA_256,), (SHA_512,), (SHA_256, SHA_512)])
def test_password_is_checked_against_either_credential(
    mechanisms: tuple[ScramMechanism, ...],
) -> None:
    found = credentials({"ann": "pencil"}, mechanisms=mechanisms)
    assert log_in(found, b"\0ann\0pencil").principal == Principal("User", "ann")
    with pytest.raises(LoginRefusedError, match="wrong password"):
        log_in(found, b"\0ann\0Pencil")


def test_users_from_the_settings_come_first() -> None:
    found = credentials({"ann": "stored"}, {"ann": "set", "bob": "set"})
    assert log_in(found, b"\0ann\0set").principal.name == "ann"
    assert log_in(found, b"\0bob\0set").principal.name == "bob"
    with pytest.raises(LoginRefusedError):
        log_in(found, b"\0ann\0stored")


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0ann\0wrong", INVALID),
        (b"\0bob\0pencil", INVALID),
        (b"\0\xff\0pencil", INVALID),
        (b"root\0ann\0wrong", INVALID),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (b"\0\0pencil", "Authentication failed: username not specified"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"ann\0pencil", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0ann\0pencil\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_refusals_are_kafkas(token: bytes, told: str) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        log_in(credentials({"ann": "pencil"}), token)
    assert caught.value.told == told


def test_client_may_ask_to_act_for_itself() -> None:
    found = credentials({"ann": "pencil"})
    assert log_in(found, b"ann\0ann\0pencil").principal.name == "ann"


def test_client_may_not_ask_to_act_for_another() -> None:
    with pytest.raises(LoginRefusedError) as caught:
        log_in(credentials({"ann": "pencil"}), b"root\0ann\0pencil")
    assert "different from username" in str(caught.value.told)


def test_a_password_is_in_no_text() -> None:
    found = credentials({"ann": "pencil"})
    check = PlainConversation(found).respond(b"\0ann\0hunter2")
    with pytest.raises(LoginRefusedError) as caught:
        check.run()
    assert "hunter2" not in f"{check!r} {caught.value!r} {caught.value} {caught.value.told}"


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(token: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        log_in(credentials(), token)
