"""Deadlines: any number of names, each due at most once, the first one known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie_server.group.deadlines import Deadline, Deadlines


def name(text: str) -> Deadline:
    """A deadline."""
    return ("session", "g", text)


def due(deadlines: Deadlines, now_ms: int) -> list[str]:
    """Everything that is due."""
    found = []
    while (deadline := deadlines.pop_due(now_ms)) is not None:
        found.append(deadline[2])
    return found


def test_without_deadlines_none_is_next() -> None:
    deadlines = Deadlines()
    assert deadlines.next() is None
    assert due(deadlines, 1_000) == []


def test_a_deadline_is_due_once_and_not_before_its_time() -> None:
    deadlines = Deadlines()
    deadlines.set(name("a"), 10)
    assert deadlines.next() == 10
    assert due(deadlines, 9) == []
    assert due(deadlines, 10) == ["a"]
    assert due(deadlines, 10) == []
    assert len(deadlines) == 0


def test_deadlines_come_in_order_of_time_and_then_of_name() -> None:
    deadlines = Deadlines()
    for text, at_ms in (("c", 20), ("a", 30), ("b", 10), ("d", 10)):
        deadlines.set(name(text), at_ms)
    assert due(deadlines, 100) == ["b", "d", "c", "a"]


def test_a_deadline_that_is_moved_away_is_not_due_at_its_former_time() -> None:
    deadlines = Deadlines()
    deadlines.set(name("a"), 10)
    deadlines.set(name("a"), 30)
    assert due(deadlines, 29) == []
    assert deadlines.next() == 30
    assert due(deadlines, 30) == ["a"]


def test_a_deadline_that_is_moved_near_is_due_once_at_its_new_time() -> None:
    deadlines = Deadlines()
    deadlines.set(name("a"), 30)
    deadlines.set(name("a"), 10)
    assert due(deadlines, 10) == ["a"]
    assert due(deadlines, 30) == []


def test_a_cancelled_deadline_is_forgotten_and_cancelling_none_is_no_error() -> None:
    deadlines = Deadlines()
    deadlines.set(name("a"), 10)
    deadlines.cancel(name("a"))
    deadlines.cancel(name("b"))
    assert deadlines.next() is None
    assert deadlines.at(name("a")) is None


def test_a_deadline_set_again_after_it_was_cancelled_is_due_once() -> None:
    deadlines = Deadlines()
    deadlines.set(name("a"), 10)
    deadlines.cancel(name("a"))
    deadlines.set(name("a"), 20)
    assert due(deadlines, 19) == []
    assert due(deadlines, 20) == ["a"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.sampled_from("abc"), st.integers(0, 20)),
            st.tuples(st.just("cancel"), st.sampled_from("abc"), st.just(0)),
            st.tuples(st.just("due"), st.just(""), st.integers(0, 20)),
        )
    )
)
def test_whatever_is_done_the_same_is_due_as_in_a_plain_dictionary(
    steps: list[tuple[str, str, int]],
) -> None:
    deadlines, model = Deadlines(), dict[str, int]()
    for step, text, at_ms in steps:
        if step == "set":
            deadlines.set(name(text), at_ms)
            model[text] = at_ms
        elif step == "cancel":
            deadlines.cancel(name(text))
            model.pop(text, None)
        else:
            expected = sorted((at, who) for who, at in model.items() if at <= at_ms)
            assert due(deadlines, at_ms) == [who for _, who in expected]
            model = {who: at for who, at in model.items() if at > at_ms}
        assert deadlines.next() == min(model.values(), default=None)
        assert len(deadlines) == len(model)


def test_setting_and_cancelling_for_ever_takes_no_more_room() -> None:
    deadlines = Deadlines()
    for number in range(100):
        deadlines.set(name(f"{number:02}"), 40_000 - number)
    for number in range(20_000):
        deadlines.set(name(f"gone {number}"), number)
        deadlines.cancel(name(f"gone {number}"))
    assert len(deadlines._heap) < 2_000  # noqa: SLF001  # the room it takes
    assert due(deadlines, 50_000) == [f"{number:02}" for number in reversed(range(100))]
