"""Declared classes are frozen dataclasses like any other, only quicker to make."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import pytest

from coterie_protocol.journal import MemberPhase
from coterie_protocol.messages import (
    AlterUserScramCredentialsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    SaslAuthenticateRequest,
    ScramCredentialUpsertion,
)
from coterie_protocol.schema import replaced


def test_a_message_is_frozen() -> None:
    """Although it is made in a quicker way than other frozen dataclasses."""
    message = HeartbeatResponse(error_code=27)
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.error_code = 0  # type: ignore[misc]


def test_an_event_that_is_made_as_its_twin_is_like_any_other() -> None:
    event = MemberPhase(member="m", instance=None, host="/h", joined_after_ms=3)
    assert type(event) is MemberPhase
    copy = pickle.loads(pickle.dumps(event))  # noqa: S301  # made here
    assert event == dataclasses.replace(event) == copy
    assert event != dataclasses.replace(event, joined_after_ms=4)
    assert event.topics is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.member = "n"  # type: ignore[misc]
    with pytest.raises(TypeError, match="member"):
        MemberPhase(instance=None, host="/h", joined_after_ms=3)  # type: ignore[call-arg]


def test_a_missing_field_is_named() -> None:
    with pytest.raises(TypeError, match="member_id"):
        HeartbeatRequest(group_id="g", generation_id=1)  # type: ignore[call-arg]


def test_fields_are_given_by_name() -> None:
    """Positions would change with every version."""
    with pytest.raises(TypeError, match="positional"):
        HeartbeatResponse(0, 27)  # type: ignore[call-arg]


def test_messages_are_equal_hashable_replaceable_and_picklable() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    changed = dataclasses.replace(message, generation_id=2)
    assert changed == HeartbeatRequest(group_id="g", generation_id=2, member_id="m")
    assert len({message, changed, pickle.loads(pickle.dumps(message))}) == 2  # noqa: S301  # ours


def test_a_quick_replacement_is_like_the_dataclasses_modules() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    changed = replaced(message, generation_id=2)
    assert changed == dataclasses.replace(message, generation_id=2)
    assert (type(changed), message.generation_id) == (HeartbeatRequest, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.member_id = "n"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="no_field"):
        replaced(message, no_field=2)


def test_the_signature_shows_fields_and_defaults() -> None:
    """Editors and `help()` read it."""
    parameters = inspect.signature(HeartbeatResponse).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "throttle_time_ms": 0,
        "error_code": 0,
    }


def test_secrets_are_not_in_the_repr() -> None:
    upsertion = ScramCredentialUpsertion(
        name="ann", mechanism=1, iterations=4096, salt=b"a salt", salted_password=b"a password"
    )
    message = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
    assert "ann" in repr(message)
    assert "a salt" not in repr(message)
    assert "a password" not in repr(message)
    assert "a token" not in repr(SaslAuthenticateRequest(auth_bytes=b"a token"))
