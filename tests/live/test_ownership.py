"""The checks of what members have told find violations, and nothing else."""

from __future__ import annotations

from tests.live.ownership import Ownership, TaskRun, overlaps, resumed_wrongly, tokens_not_growing


def _stint(began_s: float, ended_s: float, partition: int = 0) -> Ownership:
    return Ownership(partition=partition, member="m", began_s=began_s, ended_s=ended_s)


def _run(began_s: float, *, token: int = 1, resumed: int | None = None, acked: int = 0) -> TaskRun:
    acks = [(began_s + 0.5, acked)] if acked else []
    return TaskRun(
        partition=0, member="m", token=token, began_s=began_s, resumed=resumed, acks=acks
    )


def test_ownerships_that_touch_do_not_overlap() -> None:
    assert overlaps([_stint(1, 2), _stint(2, 3), _stint(0, 9, partition=1)]) == []


def test_overlap_is_found_in_any_order() -> None:
    first, second = _stint(1, 2.5), _stint(2, 3)
    assert overlaps([second, first]) == [(first, second)]


def test_endless_ownership_overlaps_all_later_ones() -> None:
    stuck, second, third = _stint(1, float("inf")), _stint(2, 3), _stint(4, 5)
    assert overlaps([stuck, second, third]) == [(stuck, second), (stuck, third)]


def test_token_that_is_used_again_is_found() -> None:
    one, two, three = _run(1, token=5), _run(2, token=6), _run(3, token=6)
    assert tokens_not_growing([one, two, three]) == [(two, three)]


def test_task_may_resume_at_the_last_acknowledged_offset_or_one_later() -> None:
    runs = [_run(1, resumed=0, acked=7), _run(2, resumed=8, acked=9), _run(3, resumed=9)]
    assert resumed_wrongly(runs) == []


def test_task_that_resumes_below_an_acknowledged_offset_is_found() -> None:
    back = _run(3, resumed=6)
    assert resumed_wrongly([_run(1, resumed=0, acked=7), _run(2), back]) == [(7, back)]


def test_task_that_resumes_beyond_all_sent_offsets_is_found() -> None:
    ahead = _run(2, resumed=9)
    assert resumed_wrongly([_run(1, resumed=0, acked=7), ahead]) == [(7, ahead)]
