"""The chart of ownership says what the intervals say."""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import Element

from coterie_pipeline.report.gantt import gantt, note, owners
from coterie_pipeline.report.model import GroupDetail
from coterie_pipeline.report.scale import Scale
from tests.pipeline.report.samples import (
    SPAN,
    bar,
    detail,
    fault,
    of_class,
    place,
    rebalance,
    row,
    tree,
    words_of,
)


def draw(group: GroupDetail) -> Element:
    """The chart, read back."""
    return tree(gantt(group, Scale(SPAN), owners(group.rows, group.processes)))


def test_every_interval_has_its_bar_in_its_row() -> None:
    rows = [*of_class(draw(detail()), "part")]
    drawn = [[place(each) for each in of_class(one, "bar")] for one in rows]
    assert drawn == [[(0, 0.5), (0.6, 1)], [(0, 0.4), (0.3, 1)]]


def test_a_bar_tells_who_when_in_which_generation_and_how_it_ended() -> None:
    (drawn, *_) = of_class(draw(detail()), "bar")
    assert words_of(drawn) == (
        "a a at 10.0.0.1 00:00:00.000 to 00:08:20.000 (8 min 20 s) generations 3 to 5 "
        "it was taken away"
    )


def test_a_gap_is_hatched_and_lies_where_nobody_owned() -> None:
    (drawn,) = of_class(draw(detail()), "gap")
    assert place(drawn) == (0.5, 0.6)
    assert "No owner for 1 min 40 s" in words_of(drawn)


def test_an_overlap_is_outlined_over_the_bars() -> None:
    chart = draw(detail())
    (drawn,) = of_class(chart, "overlap")
    assert [place(shape) for shape in drawn.iter("rect")] == [(0.3, 0.4)] * 2
    assert [*of_class(drawn, "edge")]
    (second,) = [one for one in of_class(chart, "part") if [*of_class(one, "overlap")]]
    kinds = [each.get("class") or "" for each in second.iter()]
    assert kinds.index("overlap") > max(i for i, kind in enumerate(kinds) if "bar" in kind)


def test_an_overlap_that_is_only_possible_looks_different() -> None:
    group = detail(rows=(row(0, (bar("a", 0, 1),), (fault("overlap", 0.1, 0.2, sure_ms=0),)),))
    chart = draw(group)
    (drawn,) = of_class(chart, "possible")
    assert place(drawn) == (0.1, 0.2)
    assert "Perhaps two owners" in words_of(drawn)
    assert not [*of_class(chart, "overlap")]


def test_a_row_with_two_owners_at_once_is_marked_by_a_sign() -> None:
    # Its label shows it without colour, and so does what is read out.
    _, second = of_class(draw(detail()), "part")
    assert words_of(next(of_class(second, "label"))) == "! orders-1"
    window = next(of_class(second, "window"))
    assert window.get("aria-label") == "orders-1: 2 owners, owned twice 1 time"


def test_who_may_have_worked_on_has_a_tail() -> None:
    # A thin line goes on until the former owner had let go at the latest.
    group = detail(rows=(row(0, (bar("a", 0, 0.5, released_ms=SPAN.from_ms + 700_000),)),))
    chart = draw(group)
    (tail,) = of_class(chart, "tail")
    assert place(tail) == (0.5, 0.7)
    assert "may have worked on for 3 min 20 s" in words_of(chart)


def test_rebalances_are_lines_behind_the_rows() -> None:
    group = detail(rebalances=(rebalance(1, 0.1), rebalance(2, 0.7)))
    behind = next(of_class(draw(group), "behind"))
    assert [line.get("x1") for line in behind.iter("line")] == ["10%", "70%"]


def test_note_counts_partitions_that_are_left_out() -> None:
    group = detail(rows_in_all=78, faulty_rows_left_out=0)
    assert "+ 76 partitions more, none with a fault." in str(note(group))
    group = detail(rows_in_all=78, faulty_rows_left_out=5)
    assert "+ 76 partitions more, 5 of them with a fault." in str(note(group))


def test_note_and_bar_count_intervals_that_are_drawn_as_one() -> None:
    group = detail(rows=(row(0, (bar("a", 0, 1, intervals=7),)),), merged_below_ms=5_000)
    assert "What is less than 5 s apart is drawn as one." in str(note(group))
    assert "7 intervals, generations 3 to 5" in words_of(draw(group))


def test_note_counts_intervals_that_are_not_drawn() -> None:
    (first, *_) = detail().rows
    group = detail(rows=(replace(first, intervals=12),), rows_in_all=1)
    assert "10 short intervals not drawn." in str(note(group))


def test_chart_that_shows_everything_has_no_note() -> None:
    assert note(detail()) is None
