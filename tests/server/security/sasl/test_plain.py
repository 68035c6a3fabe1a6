"""PLAIN: passwords, as clients send them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.security import Principal, ScramMechanism
from coterie_server.security.sasl import (
    Accepted,
    Check,
    Credentials,
    LoginRefusedError,
    PlainConversation,
    RightPasswords,
)
from tests.server.security.sasl.logins import SHA_256, SHA_512, credentials

INVALID = "Authentication failed: Invalid username or password"


def log_in(found: Credentials, token: bytes) -> Accepted:
    step = PlainConversation(found, RightPasswords(b"key")).respond(token)
    assert isinstance(step, Check)
    return step.run()


@pytest.mark.parametrize("mechanisms", [(SHA_256,), (SHA_512,), (SHA_256, SHA_512)])
def test_password_is_checked_against_either_credential(
    mechanisms: tuple[ScramMechanism, ...],
) -> None:
    found = credentials({"ann": "pencil"}, mechanisms=mechanisms)
    assert log_in(found, b"\0ann\0pencil").principal == Principal("User", "ann")
    with pytest.raises(LoginRefusedError, match="wrong password"):
        log_in(found, b"\0ann\0Pencil")


@pytest.mark.parametrize("now", [{}, {"ann": "other"}])
def test_password_that_was_changed_while_it_was_checked_is_not_confirmed(
    now: dict[str, str],
) -> None:
    """The check may have waited behind thousands of others."""
    found = credentials({"ann": "pencil"})
    step = PlainConversation(found, RightPasswords(b"key")).respond(b"\0ann\0pencil")
    assert isinstance(step, Check)
    accepted = step.run()
    accepted.confirm()
    found.users = credentials(now).users
    with pytest.raises(LoginRefusedError, match="meanwhile"):
        accepted.confirm()


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
    check = PlainConversation(found, RightPasswords(b"key")).respond(b"\0ann\0hunter2")
    assert isinstance(check, Check)
    with pytest.raises(LoginRefusedError) as caught:
        check.run()
    assert "hunter2" not in f"{check!r} {caught.value!r} {caught.value} {caught.value.told}"


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(token: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        log_in(credentials(), token)


# -- passwords that were right before --------------------------------------------------------------

ANN = Accepted(Principal("User", "ann"))


def checked(step: Accepted | Check) -> Accepted:
    assert isinstance(step, Check)
    return step.run()


def test_password_that_was_right_is_accepted_at_once() -> None:
    found, right = credentials({"ann": "pencil"}), RightPasswords(b"key")
    assert checked(PlainConversation(found, right).respond(b"\0ann\0pencil")) == ANN
    assert PlainConversation(found, right).respond(b"\0ann\0pencil") == ANN


@pytest.mark.parametrize("token", [b"\0ann\0wrong", b"\0bob\0pencil", b"\0ann\0pencil2"])
def test_other_passwords_are_checked_all_the_same(token: bytes) -> None:
    found, right = credentials({"ann": "pencil"}), RightPasswords(b"key")
    checked(PlainConversation(found, right).respond(b"\0ann\0pencil"))
    with pytest.raises(LoginRefusedError):
        checked(PlainConversation(found, right).respond(token))
    assert PlainConversation(found, right).respond(b"\0ann\0pencil") == ANN


def test_identity_is_checked_with_a_password_that_was_right() -> None:
    found, right = credentials({"ann": "pencil"}), RightPasswords(b"key")
    checked(PlainConversation(found, right).respond(b"\0ann\0pencil"))
    with pytest.raises(LoginRefusedError, match="act for"):
        PlainConversation(found, right).respond(b"root\0ann\0pencil")


@pytest.mark.parametrize("now", [{"ann": "crayon"}, {}], ids=["changed", "deleted"])
def test_password_that_was_right_is_so_only_until_it_is_changed(now: dict[str, str]) -> None:
    right = RightPasswords(b"key")
    checked(PlainConversation(credentials({"ann": "pencil"}), right).respond(b"\0ann\0pencil"))
    with pytest.raises(LoginRefusedError):
        checked(PlainConversation(credentials(now), right).respond(b"\0ann\0pencil"))


def test_of_many_that_wait_only_the_first_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found, right = credentials({"ann": "pencil"}), RightPasswords(b"key")
    waiting = [PlainConversation(found, right).respond(b"\0ann\0pencil") for _ in range(3)]
    assert checked(waiting[0]) == ANN
    monkeypatch.setattr("hashlib.pbkdf2_hmac", None)
    assert [checked(each) for each in waiting[1:]] == [ANN, ANN]


def test_no_more_users_are_remembered_than_may_be() -> None:
    found = credentials(dict.fromkeys("abcde", "pencil"), mechanisms=(SHA_256,))
    right = RightPasswords(b"key", most=3)
    for name in "abcde":
        checked(PlainConversation(found, right).respond(f"\0{name}\0pencil".encode()))
    known = [name for name in "abcde" if right.knows(name, b"pencil", found.for_plain(name))]
    assert known == ["d", "e"]
