"""Colours tell owners apart and stay the same."""

from __future__ import annotations

from itertools import pairwise

from coterie_pipeline.report.gantt import COLOURS, owners
from tests.pipeline.report.samples import bar, process, row, session


def test_owners_side_by_side_have_different_colours() -> None:
    names = [f"worker-{number}" for number in range(COLOURS)]
    bars = tuple(bar(name, i / COLOURS, (i + 1) / COLOURS) for i, name in enumerate(names))
    rows = (row(0, bars), row(1, (bars[-1], *bars[:-1])))
    found = owners(rows, ())
    for one, other in pairwise(names):
        assert found[one].colour != found[other].colour


def test_an_owner_that_meets_nobody_has_the_colour_of_its_name() -> None:
    alone = owners((row(0, (bar("worker-1", 0, 1),)),), ())
    beside = owners((row(0, (bar("worker-1", 0, 1),)), row(1, (bar("z", 0, 0),))), ())
    assert alone["worker-1"].colour == beside["worker-1"].colour


def test_a_process_keeps_its_colour_over_its_memberships() -> None:
    # Member ids change at each start; who looks for a worker does not care.
    rows = (row(0, (bar("m-1", 0, 0.5, identity="p"), bar("m-2", 0.5, 1, identity="p"))),)
    found = owners(rows, (process("p", session("m-3", 0, 1)),))
    assert len({found[member].colour for member in ("m-1", "m-2", "m-3")}) == 1
    assert len({found[member].number for member in ("m-1", "m-2", "m-3")}) == 1


def test_a_beginning_that_all_share_is_left_out_of_names() -> None:
    rows = (row(0, (bar("billing-worker-01", 0, 0.5), bar("billing-worker-12", 0.5, 1))),)
    assert [each.name for each in owners(rows, ()).values()] == ["01", "12"]


def test_a_name_is_never_empty() -> None:
    rows = (row(0, (bar("worker-", 0, 0.5), bar("worker-2", 0.5, 1))),)
    assert all(each.name for each in owners(rows, ()).values())


def test_names_are_cut_by_no_more_than_tells_them_apart() -> None:
    ids = [f"coterie-{start}-1111-2222-3333-444444444444" for start in ("abcd0111", "abcd0222")]
    rows = (row(0, (bar(ids[0], 0, 0.5), bar(ids[1], 0.5, 1))),)
    assert [each.name for each in owners(rows, ()).values()] == ["abcd01…", "abcd02…"]


def test_two_workers_of_one_host_are_two() -> None:
    # Their client calls all of its processes the same.
    first, second = "coterie@/10.0.0.1", "coterie@/10.0.0.1#2"
    rows = (
        row(0, (bar("m-1", 0, 1, identity=first),)),
        row(1, (bar("m-2", 0, 1, identity=second),)),
    )
    found = owners(
        rows, (process(first, session("m-1", 0, 1)), process(second, session("m-2", 0, 1)))
    )
    assert found["m-1"].colour != found["m-2"].colour
    assert found["m-1"].number != found["m-2"].number


def test_colours_do_not_depend_on_who_was_seen_first() -> None:
    # The same members in other rows of the list of processes look the same.
    rows = (row(0, (bar("a", 0, 0.5), bar("b", 0.5, 1))),)
    one, two = process("x", session("x", 0, 1)), process("y", session("y", 0, 1))
    assert owners(rows, (one, two)) == owners(rows, (two, one))


def test_a_holder_is_one_process_even_if_a_membership_is_not_known() -> None:
    # An interval whose membership is in no journal says only its holder.
    rows = (row(0, (bar("i-1", 0, 0.5), bar("i-2", 0.5, 1))),)
    found = owners(rows, (process("p", session("i-1", 0, 1)), process("q", session("m", 0, 1))))
    assert found["i-1"].number != found["m"].number
    assert found["i-1"].colour != found["i-2"].colour
