"""What is advised, and what is not worth a word, with answers known beforehand.

What happens in these groups, `stories/advice.py` tells, and some of it the stories of lines and
of ownership.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.pipeline_tables import TableRows

_FOUND = ("rule", "severity", "about", "saves_partition_ms", "from_ms", "to_ms", "evidence")


def _evidence(**values: int | str) -> dict[str, str]:
    """The evidence, whose values are text."""
    return {name: str(value) for name, value in values.items()}


def _of_group(tables: TableRows, group: str, **where: str) -> tuple[Any, ...]:
    """All that is advised to a group, which is one thing."""
    return tables.row("advice", group, *_FOUND, **where)


def _of_node(tables: TableRows, node: str) -> list[tuple[Any, ...]]:
    """What is advised about a node of the stories."""
    assert tables.rows("nodes", node, "lines") != []
    return tables.rows("advice", "", *_FOUND, about=node)


def _assert_silent(tables: TableRows, group: str) -> None:
    """A group of the stories, with nothing to look into."""
    assert tables.rows("member_sessions", group, "member") != []
    assert tables.rows("advice", group, *_FOUND) == []


# -- two owners -----------------------------------------------------------------------------------


def test_two_owners_are_wrong(tables: TableRows) -> None:
    # However often, of as many partitions, for whatever causes: one row.
    causes = "assigned_twice, claimed_twice"
    evidence = _evidence(times=3, partitions=2, longest_ms=1030, causes=causes)
    row = _of_group(tables, "owned-twice-over")
    assert row == ("overlap", "wrong", "", None, 0, 2000, evidence)


def test_two_owners_may_be_worth_a_note(tables: TableRows) -> None:
    # If it is only possible that they were, as long as it may have been.
    causes = "removed, taken_while_held"
    evidence = _evidence(times=3, partitions=2, longest_ms=9690, causes=causes)
    row = _of_group(tables, "given-away-too-soon")
    assert row == ("possible_overlap", "note", "", None, 1110, 21_240, evidence)


# -- no owner -------------------------------------------------------------------------------------


def test_partitions_that_go_back_to_their_owners_cost_time(tables: TableRows) -> None:
    # From a second and a tenth of all the time on; that of others is not saved.
    evidence = _evidence(protocol="roundrobin", stopped_ms=10_000, times=1)
    row = _of_group(tables, "given-back")
    assert row == ("eager", "costly", "", 1000, 1000, 2000, evidence)


def test_the_latest_eager_protocol_is_to_blame(tables: TableRows) -> None:
    evidence = _evidence(protocol="sticky", stopped_ms=1500, times=2)
    row = _of_group(tables, "given-back-often")
    assert row == ("eager", "costly", "", 1500, 1000, 2000, evidence)


@pytest.mark.parametrize(
    "group",
    [
        "given-back-less-than-a-tenth",
        "given-back-within-a-second",
        "given-back-by-another-protocol",
        "given-back-to-one-that-was-gone",
        "given-to-others",
    ],
)
def test_what_another_protocol_would_hardly_save_is_not_advised(
    tables: TableRows, group: str
) -> None:
    # Too little time, or time that it would have cost as well.
    _assert_silent(tables, group)


def test_partitions_without_an_owner_are_wrong(tables: TableRows) -> None:
    # Two for ten seconds and one for six, as the journal ends.
    evidence = _evidence(partitions=3, stopped_ms=26_000)
    row = _of_group(tables, "stuck")
    assert row == ("without_owner", "wrong", "", None, 1000, 11_000, evidence)


def test_short_open_gap_is_no_advice(tables: TableRows) -> None:
    _assert_silent(tables, "stuck-for-a-moment")


# -- too many members -----------------------------------------------------------------------------


def test_members_without_partitions_are_worth_a_note(tables: TableRows) -> None:
    row = _of_group(tables, "idle")
    evidence = _evidence(members=3, partitions=2)
    assert row == ("idle_members", "note", "", None, 10, 10, evidence)


@pytest.mark.parametrize("group", ["idle-once", "nothing-to-do"])
def test_members_that_have_what_there_is_are_not_idle(tables: TableRows, group: str) -> None:
    _assert_silent(tables, group)


# -- members that come and go ---------------------------------------------------------------------


def test_a_session_timeout_is_proposed_that_outlasts_most_silences(tables: TableRows) -> None:
    # Four of five; it would have saved four fifths of the time, in whole milliseconds.
    numbers = _evidence(times=5, left=1, limit_ms=10_000, proposal_ms=15_000)
    evidence = {**numbers, "silences_ms": "12000, 13000, 14000, 14999, 610000"}
    row = _of_group(tables, "given-up")
    assert row == ("session_timeout", "costly", "w", 2002, 2_400_000, 12_000_000, evidence)


def test_a_proposal_is_longer_than_the_silences(tables: TableRows) -> None:
    # One of just 15 s asks for more; and one of just 20 s would have been too long for 20 s.
    *_, evidence = _of_group(tables, "given-up-longer")
    assert (evidence["proposal_ms"], evidence["left"]) == ("20000", "1")


def test_most_silences_are_at_least_four_fifths_of_them(tables: TableRows) -> None:
    _, _, _, saves, _, _, evidence = _of_group(tables, "given-up-thrice")
    assert (evidence["proposal_ms"], evidence["left"], saves) == ("30000", "0", 1500)


def test_rebalances_that_follow_are_saved_as_well(tables: TableRows) -> None:
    # Three times of three rebalances, each with one that follows: all that they cost.
    _, _, _, saves, *_ = _of_group(tables, "given-up-in-two-steps")
    assert saves == 3 * 1400


def test_no_session_timeout_over_five_minutes_is_proposed(tables: TableRows) -> None:
    *_, evidence = _of_group(tables, "given-up-for-five-minutes")
    assert (evidence["proposal_ms"], evidence["left"]) == ("300000", "0")


def test_a_member_that_was_dead_would_have_been_given_up_anyhow(tables: TableRows) -> None:
    # It counts, and it stays; its silence says nothing.
    numbers = _evidence(times=4, left=1, limit_ms=10_000, proposal_ms=15_000)
    evidence = {**numbers, "silences_ms": "12000, 13000, 14000"}
    row = _of_group(tables, "given-up-and-gone")
    assert row == ("session_timeout", "costly", "w", 1500, 2_400_000, 9_600_000, evidence)


def test_silences_are_told_as_far_as_anybody_reads(tables: TableRows) -> None:
    # A hundred of them; their cost is unknown if no rebalance is known.
    silences_ms = ", ".join(str(1000 + number) for number in range(100))
    numbers = _evidence(times=101, left=0, limit_ms=10_000, proposal_ms=15_000)
    row = _of_group(tables, "restarted-as-if-dead")
    assert row == (
        *("session_timeout", "costly", "w", None, 2_400_000, 101 * 2_400_000),
        {**numbers, "silences_ms": silences_ms},
    )


@pytest.mark.parametrize(
    "group",
    [
        "given-up-twice",
        "given-up-for-good",
        "given-up-for-long",
        "given-up-after-who-knows-what",
    ],
)
def test_no_session_timeout_is_proposed_for_nothing(tables: TableRows, group: str) -> None:
    # Not often enough, back too late, longer than any timeout, or than an unknown one.
    _assert_silent(tables, group)


def test_members_that_are_not_in_time_cost_their_place(tables: TableRows) -> None:
    # In the first phase or in the second one; the longest of their limits is told.
    evidence = _evidence(times=3, members=2, limit_ms=60_000)
    row = _of_group(tables, "not-in-time")
    assert row == ("rebalance_timeout", "costly", "c@/b", None, 30_000, 101_500, evidence)


def test_a_member_that_never_joined_has_lost_no_place(tables: TableRows) -> None:
    _assert_silent(tables, "not-in-time-to-begin")


def test_of_members_that_go_in_one_moment_one_is_named(tables: TableRows) -> None:
    # The one with the first member id: b, which comes from /z.
    _, _, about, *_ = _of_group(tables, "not-in-time-together")
    assert about == "c@/z"


def test_a_timeout_that_nobody_knows_is_unknown(tables: TableRows) -> None:
    evidence = _evidence(times=1, members=1, limit_ms="unknown")
    row = _of_group(tables, "not-in-whatever-time")
    assert row == ("rebalance_timeout", "costly", "b", None, 62_000, 62_000, evidence)


def test_restarts_of_dynamic_members_cost_rebalances(tables: TableRows) -> None:
    # Between two in the middle, the median is halfway, in whole milliseconds.
    numbers = _evidence(times=4, members=1, median_ms=2500, longest_ms=300_000)
    row = _of_group(tables, "restarted-by-one")
    assert row == ("restarts", "costly", "", None, 2_400_000, 9_600_000, numbers)


def test_restarts_count_for_all_of_the_group(tables: TableRows) -> None:
    *_, evidence = _of_group(tables, "restarted-by-two")
    assert evidence == _evidence(times=3, members=2, median_ms=2000, longest_ms=4000)


@pytest.mark.parametrize(
    "group",
    ["restarted-twice", "restarted-slowly", "restarted-under-its-name", "restarted-unasked"],
)
def test_what_static_membership_would_not_change_is_no_restart(
    tables: TableRows, group: str
) -> None:
    # Too seldom, too slow, static already, or not of its own will.
    _assert_silent(tables, group)


def test_a_member_that_flaps_is_named(tables: TableRows) -> None:
    evidence = _evidence(times=3, within_hour=5, how="removed")
    row = _of_group(tables, "flapping-on")
    assert row == ("flapping", "costly", "f", None, 1_800_000, 3_000_000, evidence)


def test_how_a_member_goes_that_is_there_is_unknown(tables: TableRows) -> None:
    evidence = _evidence(times=1, within_hour=3, how="unknown")
    row = _of_group(tables, "flapping-for-once")
    assert row == ("flapping", "costly", "f", None, 1_800_000, 1_800_000, evidence)


def test_a_member_that_returns_twice_does_not_flap(tables: TableRows) -> None:
    _assert_silent(tables, "flapping-hardly")


def test_the_member_that_is_waited_for_is_named(tables: TableRows) -> None:
    # From three seconds of six on; its host, for a member id says nothing.
    evidence = _evidence(times=3, waited_ms=3000, all_ms=6000)
    row = _of_group(tables, "awaited")
    assert row == ("slow_member", "costly", "/a", None, 10_000, 41_000, evidence)


def test_a_static_member_that_is_waited_for_has_a_name(tables: TableRows) -> None:
    _, _, about, *_ = _of_group(tables, "awaited-by-name")
    assert about == "i"


def test_an_id_that_nobody_claims_is_all_that_is_known(tables: TableRows) -> None:
    row = _of_group(tables, "awaited-in-vain")
    evidence = _evidence(times=3, waited_ms=4500, all_ms=4500)
    assert row == ("slow_member", "costly", "ghost", None, 10_000, 31_500, evidence)


@pytest.mark.parametrize("group", ["awaited-less", "awaited-twice", "awaited-without-end"])
def test_whom_nobody_waits_for_much_is_not_slow(tables: TableRows, group: str) -> None:
    # Less than half of the time, not three times for a second, or not known to be the last.
    _assert_silent(tables, group)


def test_two_processes_with_one_name_are_wrong(tables: TableRows) -> None:
    row = _of_group(tables, "replaced", rule="one_name_for_two")
    evidence = _evidence(times=2, hosts="/a1 and /a2")
    assert row == ("one_name_for_two", "wrong", "i", None, 1300, 1400, evidence)


def test_two_processes_of_one_host_have_one_host(tables: TableRows) -> None:
    *_, evidence = _of_group(tables, "one-name-for-two", rule="one_name_for_two")
    assert evidence == _evidence(times=1, hosts="/h")


def test_a_host_that_is_known_is_told_alone(tables: TableRows) -> None:
    *_, evidence = _of_group(tables, "one-name-from-somewhere", rule="one_name_for_two")
    assert evidence == _evidence(times=1, hosts="/a2")


def test_two_processes_may_come_from_nowhere(tables: TableRows) -> None:
    *_, evidence = _of_group(tables, "one-name-from-nowhere", rule="one_name_for_two")
    assert evidence == _evidence(times=1, hosts="")


# -- offsets and journals -------------------------------------------------------------------------


def test_offsets_that_go_back_are_worth_a_note(tables: TableRows) -> None:
    row = _of_group(tables, "went-back-often")
    evidence = _evidence(times=3, partitions=2, deepest=7)
    assert row == ("offset_went_back", "note", "", None, 100, 300, evidence)


def test_offsets_that_go_on_are_not(tables: TableRows) -> None:
    assert tables.row("commits", "given-twice", "commits") == (2,)
    _assert_silent(tables, "given-twice")


def test_lines_that_are_missing_are_wrong(tables: TableRows) -> None:
    evidence = _evidence(missing=3, gaps=2, conflicts=0)
    assert _of_node(tables, "with-holes") == [
        ("journal_gap", "wrong", "with-holes", None, 0, 200, evidence)
    ]


def test_numbers_that_are_there_twice_are_wrong(tables: TableRows) -> None:
    evidence = _evidence(missing=0, gaps=0, conflicts=1)
    assert _of_node(tables, "used-twice") == [
        ("journal_gap", "wrong", "used-twice", None, 0, 1000, evidence)
    ]


def test_a_line_that_was_torn_is_not_missing(tables: TableRows) -> None:
    assert _of_node(tables, "killed") == []
    assert _of_node(tables, "torn-whole") == []


def test_a_clock_that_is_off_is_worth_a_note(tables: TableRows) -> None:
    evidence = _evidence(clock_back_ms=500, clock_behind_ms=1500)
    node = "set-back-and-behind-2"
    assert _of_node(tables, node) == [("clock", "note", node, None, 8500, 9000, evidence)]


def test_a_clock_is_off_by_more_than_a_tenth_of_a_second(tables: TableRows) -> None:
    ((rule, *_, evidence),) = _of_node(tables, "set-back-a-little")
    assert (rule, evidence["clock_back_ms"]) == ("clock", "101")
    ((rule, *_, evidence),) = _of_node(tables, "behind-a-little-2")
    assert (rule, evidence["clock_behind_ms"]) == ("clock", "101")


def test_clock_that_is_off_by_a_tenth_of_a_second_is_no_advice(tables: TableRows) -> None:
    assert tables.row("nodes", "set-back-by-next-to-nothing", "clock_back_ms") == (100,)
    assert _of_node(tables, "set-back-by-next-to-nothing") == []
    assert tables.row("nodes", "behind-by-next-to-nothing-2", "clock_behind_ms") == (100,)
    assert _of_node(tables, "behind-by-next-to-nothing-2") == []


def test_lines_that_cannot_be_read_are_worth_a_note(tables: TableRows) -> None:
    # Each kind for itself, with the first file that has such lines; torn ones are none.
    columns = ("about", "severity", "saves_partition_ms", "from_ms", "to_ms", "evidence")
    rows = tables.rows("advice", "", *columns, rule="unread_lines")
    assert {row[1:5] for row in rows} == {("note", None, None, None)}
    found = [(about.rpartition("/")[2], evidence) for about, *_, evidence in rows]
    strange = "journal-strange-0000000000000001.jsonl"
    assert sorted(found, key=lambda each: str(each[1]["why"])) == [
        (
            "journal-a-foreign-line-0000000000000001.jsonl",
            _evidence(why="foreign", lines=3, files=2),
        ),
        (strange, _evidence(why="misfit", lines=3, files=1)),
        (strange, _evidence(why="newer", lines=1, files=1)),
        (strange, _evidence(why="unknown_kind", lines=1, files=1)),
    ]
