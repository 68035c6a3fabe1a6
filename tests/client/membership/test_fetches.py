"""Questions for committed offsets."""

from __future__ import annotations

import pytest

from coterie_client.membership import (
    ClosedError,
    FailureKind,
    Fetched,
    PartitionLostError,
    Phase,
    Position,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.support.scripted_membership import NODE, OTHER, Script

T0, T1 = ("t", 0), ("t", 1)


def at_work() -> Script:
    """A member in generation 5 that works on two partitions."""
    script = Script("t").start()
    script.settle(T0, T1, generation=5)
    return script


def position(script: Script, key: str) -> Position | None:
    """What was found."""
    result = script.results[key]
    assert isinstance(result, Fetched)
    assert result.error is None
    return result.position


def test_committed() -> None:
    script = at_work()
    script.fetch("k", T0)
    script.tell_offset(7)
    assert position(script, "k") == Position(7, "m")


def test_nothing_committed() -> None:
    script = at_work()
    script.fetch("k", T0)
    script.tell_offset(-1)
    assert position(script, "k") is None


def test_fetches_during_a_request_share_the_next() -> None:
    script = at_work()
    for key, partition in (("a", T0), ("b", T1), ("c", T1), ("d", ("u", 0))):
        script.fetch(key, partition)
    script.tell_offset(1)
    request = script.asks(OffsetFetchRequest)
    assert [(each.name, each.partition_indexes) for each in request.topics or ()] == [
        ("t", (1,)),
        ("u", (0,)),
    ]
    script.tell_offset(2)
    assert [position(script, key) for key in "abcd"] == [
        Position(offset, "m") for offset in (1, 2, 2, 2)
    ]


def test_error_of_the_whole_answer_counts_for_each_partition() -> None:
    script = at_work()
    script.fetch("k", T0)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    script.answer(OffsetFetchRequest, OffsetFetchResponse(error_code=code))
    assert script.error_of("k") is not None


def test_partition_missing_in_the_answer() -> None:
    script = at_work()
    script.fetch("k", T0)
    script.answer(OffsetFetchRequest, OffsetFetchResponse())
    assert "k" not in script.results
    script.sleep(150)
    assert script.awaits(OffsetFetchRequest)


def test_fetch_moves_to_the_new_coordinator() -> None:
    script = at_work()
    script.fetch("k", T0)
    script.fail(OffsetFetchRequest)
    script.sleep(150)
    script.find()
    script.tell_offset(7)
    assert position(script, "k") == Position(7, "m")


def test_fetch_goes_out_as_soon_as_the_new_coordinator_is_known() -> None:
    script = at_work()
    script.fetch("k", T0)
    script.fail_until_found(OffsetFetchRequest, *[NODE] * 6, OTHER)
    assert script.awaits(OffsetFetchRequest)


def test_unsendable() -> None:
    script = at_work()
    error = ValueError("no version for it")
    script.fetch("k", T0)
    script.fail(OffsetFetchRequest, FailureKind.REFUSED, error)
    assert script.error_of("k") is error
    assert script.machine.phase is Phase.STABLE


@pytest.mark.parametrize("is_sent", [False, True])
def test_question_of_the_owner_fails_when_its_partition_is_lost(*, is_sent: bool) -> None:
    """Another member commits for it by then, and its work is not to go on from there."""
    script = at_work()
    if not is_sent:
        script.fetch("before", T1)
    script.fetch("k", T0)
    script.sleep(45_000)
    assert script.working == {}
    assert isinstance(script.error_of("k"), PartitionLostError)


def test_question_of_the_owner_fails_when_its_partition_is_let_go_of() -> None:
    script = at_work()
    script.fetch("k", T0)
    script.fetch("kept", T1)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T1)
    script.release()
    assert isinstance(script.error_of("k"), PartitionLostError)
    script.tell_offset(1)
    script.tell_offset(2)
    assert position(script, "kept") == Position(2, "m")


def test_question_for_a_copy_is_answered_whatever_becomes_of_the_partition() -> None:
    script = at_work()
    token = script.working[T0]
    script.machine.fetch("copy", T0, None)
    script.machine.fetch("owner", T0, token)
    script.keys |= {"copy", "owner"}
    script.fire()
    script.sleep(45_000)
    assert isinstance(script.error_of("owner"), PartitionLostError)
    script.tell_offset(7)
    assert position(script, "copy") == Position(7, "m")


def test_question_of_a_former_owner_is_refused() -> None:
    script = at_work()
    script.machine.fetch("k", T0, script.working[T0] - 1)
    script.keys.add("k")
    script.fire()
    assert isinstance(script.error_of("k"), PartitionLostError)
    assert not script.awaits(OffsetFetchRequest)


@pytest.mark.parametrize("is_sent", [False, True])
def test_fetch_fails_when_the_membership_ends(*, is_sent: bool) -> None:
    script = at_work()
    if not is_sent:
        script.fetch("before", T1)
    script.fetch("k", T0)
    script.close()
    script.release()
    script.survive()
    assert script.stopped is not None
    assert script.keys == script.results.keys()


def test_fetch_fails_when_the_membership_ends_without_a_coordinator() -> None:
    script = Script("t").start()
    script.fetch("k", T0)
    script.close()
    assert script.stopped is not None
    assert isinstance(script.error_of("k"), ClosedError)
