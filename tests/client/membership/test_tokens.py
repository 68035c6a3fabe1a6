"""Fencing tokens: the coordinator issues them, and where it does not they are made up."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from coterie_client.membership.ownership import token_of
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import SyncGroupRequest
from tests.support.scripted_membership import Script

T0, T1 = ("t", 0), ("t", 1)

#: A year that the tests can rely on: within it, tokens of one generation tell times apart.
NOW_MS = 1_760_000_000_000
YEAR_MS = 365 * 24 * 3_600_000

generations = st.integers(1, 2**31 - 1)
times = st.integers(NOW_MS, NOW_MS + YEAR_MS)


# -- issued ------------------------------------------------------------------------------------


def test_token_is_asked_for() -> None:
    """A coordinator that does not know the field ignores it."""
    script = Script("t").start()
    script.find()
    script.join(1)
    assert script.asks(SyncGroupRequest).wants_token


def test_issued_token_is_what_work_gets() -> None:
    script = Script("t").start()
    script.find()
    script.wall_shift_ms = NOW_MS
    script.join(7)
    script.sync(T0, T1, token=7 << 32 | 5)
    script.beat()
    assert script.working == {T0: 7 << 32 | 5, T1: 7 << 32 | 5}


def test_kept_partition_keeps_its_issued_token() -> None:
    script = Script("t").start()
    script.find()
    script.join(1)
    script.sync(T0, token=1 << 32)
    script.beat()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(2)
    script.sync(T0, T1, token=2 << 32)
    script.answer_heartbeat()
    assert script.working == {T0: 1 << 32, T1: 2 << 32}


@given(tokens=st.lists(st.integers(0, 2**40), min_size=2, max_size=5))
@example(tokens=[7, 7])
@example(tokens=[7, 3])
def test_issued_tokens_are_used_as_they_are(tokens: list[int]) -> None:
    script = Script("t").start()
    script.find()
    for number, token in enumerate(tokens):
        script.join(number + 1)
        script.sync(T0, token=token)
        script.beat()
        assert script.working[T0] == token
        script.next_beat(ErrorCode.ILLEGAL_GENERATION)


# -- made up -----------------------------------------------------------------------------------


@given(earlier=generations, later=generations, first_ms=times, second_ms=times)
@example(earlier=1, later=2, first_ms=NOW_MS + YEAR_MS, second_ms=NOW_MS)
def test_later_generation_is_greater(
    earlier: int, later: int, first_ms: int, second_ms: int
) -> None:
    """Whatever the clocks of two members say, the generation decides."""
    if earlier < later:
        assert token_of(earlier, first_ms) < token_of(later, second_ms)


@given(generation=generations, first_ms=times, gap_ms=st.integers(100, YEAR_MS))
def test_later_start_is_greater(generation: int, first_ms: int, gap_ms: int) -> None:
    """A static member that restarts in one generation has a greater one than its former self."""
    assert token_of(generation, first_ms) < token_of(generation, first_ms + gap_ms)


@given(generation=generations, now_ms=times)
def test_fits_64_bits(generation: int, now_ms: int) -> None:
    assert 0 < token_of(generation, now_ms) < 2**63


@given(
    takings=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-3_600_000, 3_600_000)), min_size=2, max_size=6
    )
)
@example(takings=[(0, 0), (0, 0)])
@example(takings=[(0, 0), (0, -3_600_000)])
def test_tokens_of_one_member_grow(takings: list[tuple[int, int]]) -> None:
    """A member that loses a partition and has it again gets a greater token for it.

    That may be in the same generation, as a coordinator need not rebalance for a follower that
    comes back with what it said before; and the clock on the wall may have been put back meanwhile.
    """
    script = Script("t").start()
    script.find()
    generation, newest = 1, -1
    for number, (step, shift_ms) in enumerate(takings):
        generation += step
        script.wall_shift_ms = NOW_MS + shift_ms
        script.join(generation)
        script.sync(T0)
        script.beat()
        assert script.working[T0] > newest, number
        newest = script.working[T0]
        script.next_beat(ErrorCode.ILLEGAL_GENERATION)


def test_token_stays_with_the_taking() -> None:
    script = Script("t").start()
    script.settle(T0, generation=1)
    token = script.working[T0]
    for generation in (2, 3):
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
        script.join(generation)
        script.sync(T0, T1)
        assert script.machine.owned[T0] == token
