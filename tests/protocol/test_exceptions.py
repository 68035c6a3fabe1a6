"""The errors of the wire travel between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from coterie_protocol import CoterieError, EncodeError, ProtocolError, UnsupportedRequest
from coterie_protocol._compile import format_of
from coterie_protocol.messages import HeartbeatRequest

ERRORS = [
    ProtocolError("cut off", subject="JoinGroup request", version=5, field="group_id", offset=7),
    UnsupportedRequest(999, 3, 17),
    EncodeError("too long", subject="Heartbeat request", version=4, field="member_id"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_can_be_pickled_and_copied(error: CoterieError) -> None:
    """A worker process can pass one to its parent."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  # our own
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_an_error_says_what_where_and_why() -> None:
    assert str(ERRORS[0]) == "JoinGroup request v5, field group_id, offset 7: cut off"


def test_a_compiled_format_works_by_itself() -> None:
    form = format_of(HeartbeatRequest, 4)
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    compiled = form.compile()
    assert compiled.build(message) == form.build(message)
    assert compiled.parse(form.build(message)) == message
