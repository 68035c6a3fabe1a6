"""The chart of members shows who was there when, and how that ended."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from coterie_pipeline.report.gantt import owners
from coterie_pipeline.report.members import members, note
from coterie_pipeline.report.model import Process
from coterie_pipeline.report.scale import Scale
from tests.pipeline.report.samples import (
    SPAN,
    detail,
    of_class,
    place,
    process,
    session,
    tree,
    words_of,
)


def draw(*processes: Process) -> Element:
    """The chart, read back."""
    group = detail(processes=processes, rows=())
    return tree(members(group, Scale(SPAN), owners((), processes)))


def test_each_membership_has_its_bar() -> None:
    chart = draw(process("p", session("m-1", 0.1, 0.4), session("m-2", 0.5, 0.8)))
    (one,) = of_class(chart, "process")
    assert [place(each) for each in of_class(one, "bar")] == [(0.1, 0.4), (0.5, 0.8)]


def test_a_membership_without_beginning_or_end_fills_the_chart() -> None:
    # It was there before the journal begins, and goes on when it ends.
    (drawn,) = of_class(draw(process("p", session("m", None, None))), "bar")
    assert place(drawn) == (0, 1)
    assert "there when the journal begins" in words_of(drawn)
    assert "still a member at the end of the journal" in words_of(drawn)


def test_how_a_membership_ended_is_a_sign() -> None:
    # Given up is a cross, leaving an arrow, going on nothing.
    chart = draw(
        process("a", session("a", 0, 0.4)),
        process("b", session("b", 0, 0.4, ended="left")),
        process("c", session("c", 0, None)),
    )
    signs = [words_of(each) for each in of_class(chart, "end")]
    assert signs == ["\N{MULTIPLICATION SIGN}", "→"]


def test_a_member_that_was_given_up_tells_its_silence() -> None:
    # How far it was over its session timeout is what one wants to know.
    (drawn,) = of_class(draw(process("p", session("m", 0, 0.4))), "bar")
    assert "silent for 10.4 s, might have been for 10 s" in words_of(drawn)


def test_a_flapping_process_is_flagged() -> None:
    flapping = process("p", session("m", 0, 0.4), memberships=9, is_flapping=True)
    chart = draw(flapping)
    assert "⚠ flapping 9" in words_of(next(of_class(chart, "label")))
    window = next(of_class(chart, "window"))
    assert "flapping: it came back three times" in str(window.get("aria-label"))


def test_a_dynamic_member_is_named_as_its_bars_are() -> None:
    # With the address that it comes from, and all that identifies it where one points at it.
    member = "coterie-1f3e5a6b-1111-2222-3333-444444444444"
    (label,) = of_class(draw(process("coterie@/10.0.0.1#2", session(member, 0, 1))), "label")
    assert words_of(label) == "coterie-1f3e… 10.0.0.1"
    assert label.get("title") == "coterie@/10.0.0.1#2"


def test_what_is_left_out_is_told() -> None:
    # Processes, and memberships of those that are shown.
    shown = process("p", session("m", 0, 0.4), memberships=9)
    said = str(note(detail(processes=(shown,), processes_in_all=5)))
    assert "+ 4 processes more with fewer memberships." in said
    assert "8 earlier ones are not." in said


def test_chart_that_shows_everything_has_no_note() -> None:
    assert note(detail()) is None
