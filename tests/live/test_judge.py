"""The judge of what members have told: it finds what must not happen, and nothing else."""

from __future__ import annotations

from tests.live.judge import Run, Stint, overlaps, resumed_wrongly, tokens_not_growing


def _stint(began_s: float, ended_s: float, partition: int = 0) -> Stint:
    return Stint(partition=partition, member="m", began_s=began_s, ended_s=ended_s)


def _run(began_s: float, *, token: int = 1, resumed: int | None = None, acked: int = 0) -> Run:
    acks = [(began_s + 0.5, acked)] if acked else []
    return Run(partition=0, member="m", token=token, began_s=began_s, resumed=resumed, acks=acks)


def test_one_after_the_other_is_fine() -> None:
    """Stints that touch do not overlap, and neither do those on different partitions."""
    assert overlaps([_stint(1, 2), _stint(2, 3), _stint(0, 9, partition=1)]) == []


def test_two_at_a_time_are_found() -> None:
    """A stint that began before another on its partition had ended is found, in any order."""
    first, second = _stint(1, 2.5), _stint(2, 3)
    assert overlaps([second, first]) == [(first, second)]


def test_a_long_one_overlaps_all_that_come_later() -> None:
    """A stint that goes on for ever overlaps each later one, not only the next."""
    stuck, second, third = _stint(1, float("inf")), _stint(2, 3), _stint(4, 5)
    assert overlaps([stuck, second, third]) == [(stuck, second), (stuck, third)]


def test_a_token_used_again_is_found() -> None:
    """A later task needs a higher token than the one before."""
    one, two, three = _run(1, token=5), _run(2, token=6), _run(3, token=6)
    assert tokens_not_growing([one, two, three]) == [(two, three)]


def test_going_on_where_the_last_one_was_is_fine() -> None:
    """A task may go on at the last acknowledged offset, or one later: that commit was under way."""
    runs = [_run(1, resumed=0, acked=7), _run(2, resumed=8, acked=9), _run(3, resumed=9)]
    assert resumed_wrongly(runs) == []


def test_going_back_is_found() -> None:
    """A task that goes on below an acknowledged offset is found, whoever it was acknowledged to."""
    back = _run(3, resumed=6)
    assert resumed_wrongly([_run(1, resumed=0, acked=7), _run(2), back]) == [(7, back)]


def test_going_on_where_nobody_was_is_found() -> None:
    """A task can't go on at an offset that nobody has sent."""
    ahead = _run(2, resumed=9)
    assert resumed_wrongly([_run(1, resumed=0, acked=7), ahead]) == [(7, ahead)]
