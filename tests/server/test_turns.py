"""Work in pieces, with a turn of the event loop for each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from coterie_server.turns import AT_ONCE, OneByOne, Piece, Turns, Unfinished, begin, each
from tests.support.turns import SlowLoop, finished


def pieces(log: list[str], name: str, count: int) -> Iterator[None]:
    """Work of so many pieces, each of which is noted."""
    for number in range(count):
        log.append(f"{name}{number}")
        yield


def test_a_short_answer_is_made_at_once() -> None:
    assert begin(each(range(AT_ONCE - 1), str, Piece())) == tuple(map(str, range(AT_ONCE - 1)))


def test_of_a_long_answer_one_piece_is_made_at_a_time() -> None:
    made: list[int] = []
    answer = begin(each(range(AT_ONCE * 2 + 1), made.append, Piece()))
    assert isinstance(answer, Unfinished)
    assert len(made) == AT_ONCE
    next(answer.making)
    assert len(made) == AT_ONCE * 2
    assert len(finished(answer)) == AT_ONCE * 2 + 1


def test_what_is_counted_together_fills_a_piece() -> None:
    piece = Piece(10)
    assert [piece.is_whole(4) for _ in range(6)] == [False, False, True, False, False, True]


def test_each_turn_does_one_piece() -> None:
    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)
    turns.do(pieces(log, "a", 3))
    assert not log
    for number in range(3):
        loop.turn()
        assert len(log) == number + 1
    assert len(turns) == 1  # nothing says that the third was the last
    assert loop.run() == 1
    assert len(turns) == 0


def test_one_thing_is_finished_before_the_next_is_begun() -> None:
    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)
    turns.do(pieces(log, "a", 2))
    turns.do(pieces(log, "b", 2))
    loop.run()
    assert log == ["a0", "a1", "b0", "b1"]


def test_what_is_no_longer_wanted_is_dropped() -> None:
    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)
    turns.do(pieces(log, "a", 3), "the first")
    turns.do(pieces(log, "b", 1))
    loop.turn()
    turns.forget("the first")
    loop.run()
    assert log == ["a0", "b0"]


def test_what_is_no_longer_wanted_is_let_go_of_at_once_also_behind_others() -> None:
    """Or else those who ask and go would pile up behind one that takes long."""
    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)
    turns.do(pieces(log, "a", 3))
    for number in range(1000):
        turns.do(pieces(log, "b", 1), number)
        turns.forget(number)
        turns.forget(number)  # no harm
    assert len(turns) == 1
    assert loop.run() == 4
    assert log == ["a0", "a1", "a2"]


def test_work_may_forget_itself() -> None:
    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)

    def forgetting() -> Iterator[None]:
        turns.forget("me")
        yield

    turns.do(forgetting(), "me")
    turns.do(pieces(log, "b", 1))
    loop.run()
    assert (log, len(turns)) == (["b0"], 0)


def test_turns_go_on_after_all_was_forgotten() -> None:
    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)
    turns.do(pieces(log, "a", 1), "me")
    turns.forget("me")
    turns.do(pieces(log, "b", 1))
    assert len(loop.waiting) == 1  # not one turn for each
    loop.run()
    assert log == ["b0"]


def test_of_actions_one_is_called_in_each_turn_and_what_it_goes_on_with_is_next() -> None:
    loop, log = SlowLoop(), list[str]()
    one_by_one = OneByOne(loop.call_soon)

    def begin(name: str) -> None:
        log.append(f"{name}0")
        one_by_one.call_soon(lambda: log.append(f"{name}1"))

    for name in "ab":
        one_by_one.call_soon(partial(begin, name))
    for number in range(4):
        assert len(log) == number
        loop.turn()
    assert log == ["a0", "a1", "b0", "b1"]
    assert not loop.waiting


def test_actions_that_wait_are_let_go_of_at_once_when_forgotten() -> None:
    loop, log = SlowLoop(), list[str]()
    one_by_one = OneByOne(loop.call_soon)
    actions = [partial(log.append, str(number)) for number in range(100)]
    for action in actions:
        one_by_one.call_soon(action)
    for action in actions[:-1]:
        one_by_one.forget(action)
    assert len(one_by_one) == 1
    loop.run()
    one_by_one.forget(actions[-1])  # no harm
    assert log == ["99"]


def test_action_that_fails_holds_up_nothing_behind_it() -> None:
    loop, log = SlowLoop(), list[str]()
    one_by_one = OneByOne(loop.call_soon)

    def fail() -> None:
        raise ValueError("a bug")

    one_by_one.call_soon(fail)
    one_by_one.call_soon(partial(log.append, "next"))
    with pytest.raises(ValueError, match="a bug"):
        loop.turn()
    loop.run()
    assert log == ["next"]


def test_work_that_fails_holds_up_nothing_behind_it() -> None:
    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("a bug")

    loop, log = SlowLoop(), list[str]()
    turns = Turns(loop.call_soon)
    turns.do(failing())
    turns.do(pieces(log, "b", 1))
    loop.turn()
    with pytest.raises(RuntimeError, match="a bug"):
        loop.turn()
    loop.run()
    assert log == ["b0"]
