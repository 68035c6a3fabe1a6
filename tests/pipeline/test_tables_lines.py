"""What lines are worth, in which order they go, and what they tell besides ownership.

What happens in these groups, `stories/lines.py` tells.
"""

from __future__ import annotations

import pytest

from tests.support.pipeline_tables import TableRows

_HOUR_MS = 3_600_000


# -- lines ----------------------------------------------------------------------------------------


def test_a_torn_line_is_kept_apart_and_its_number_is_used_again(tables: TableRows) -> None:
    # Nothing is missing, and what it would have said has not happened.
    assert tables.tables["unread"] != []
    columns = ("lines", "missing", "gaps", "conflicts", "starts", "crashes")
    assert tables.row("nodes", "killed", *columns) == (9, 0, 0, 0, 3, 1)
    assert tables.rows("rebalances", "killed", "outcome") == [("completed",)]


def test_torn_line_is_in_unread_as_far_as_it_goes(tables: TableRows) -> None:
    texts = [row["excerpt"] for row in tables.tables["unread"] if row["why"] == "torn"]
    short, whole = sorted(texts, key=len)
    assert short.startswith('{"v":1,"ts":16999992009')
    assert len(short) == 60
    assert whole.endswith("}")


def test_of_two_lines_with_one_number_the_one_in_the_later_file_counts(tables: TableRows) -> None:
    # The group was not emptied: no member was told so.
    assert tables.row("nodes", "used-twice", "lines", "conflicts", "missing") == (5, 1, 0)
    assert tables.row("ownership", "used-twice", "ended") == ("open",)


def test_lives_of_a_node_are_not_mixed(tables: TableRows) -> None:
    # Nothing counts of the former one, whether its numbers were used again or not.
    columns = ("lines", "first_seq", "last_seq", "missing", "starts", "first_ms", "last_ms")
    row = tables.row("nodes", "anew-with-nothing", *columns)
    assert row == (8, 1, 8, 0, 1, 1000, 3010)
    assert tables.row("nodes", "anew-with-nothing", "conflicts", "clock_back_ms") == (8, 0)
    assert tables.rows("ownership", "anew-with-nothing", "holder", "from_ms", "ended") == [
        ("d", 2000, "open"),
        ("e", 2000, "open"),
    ]
    assert tables.row("commits", "anew-with-nothing", "commits", "first_offset") == (2, 5)


def test_a_line_without_its_break_does_not_count_even_if_it_could_be_read(
    tables: TableRows,
) -> None:
    # `journal verify` calls it torn, too: its number is used again.
    assert tables.row("nodes", "torn-whole", "lines", "conflicts", "missing") == (5, 0, 0)
    assert tables.row("ownership", "torn-whole", "ended") == ("open",)


def test_lines_that_cannot_be_read_say_why(tables: TableRows) -> None:
    # Each has its reason; a field that all lines of a kind have must not be missing.
    whys = sorted(
        (row["why"], row["seq"])
        for row in tables.tables["unread"]
        if "/journal-str" in row["segment"]
    )
    assert [why for why, _ in whys] == [
        *("foreign", "foreign", "misfit", "misfit", "misfit", "newer", "unknown_kind"),
    ]
    assert [seq for why, seq in whys if why in ("newer", "unknown_kind")] == [5, 6]


def test_lines_that_cannot_be_read_are_not_missing(tables: TableRows) -> None:
    # Those that have a number at all, and none of them tells anything of the group.
    assert tables.row("nodes", "strange", "first_seq", "last_seq", "missing") == (1, 10, 0)
    assert tables.rows("member_sessions", "strange", "member", "ended") == [
        ("a", "open"),
        ("b", "open"),
    ]


def test_lines_that_are_there_twice_count_once(tables: TableRows) -> None:
    assert tables.row("nodes", "given-twice", "lines", "duplicates", "conflicts") == (6, 5, 0)
    assert tables.row("commits", "given-twice", "commits", "last_offset") == (2, 2)
    assert tables.rows("rebalances", "given-twice", "rebalance") == [(1,)]


def test_numbers_that_are_missing_are_counted(tables: TableRows) -> None:
    columns = ("lines", "first_seq", "last_seq", "missing", "gaps", "first_ms", "last_ms")
    assert tables.row("nodes", "with-holes", *columns) == (6, 1, 9, 3, 2, 0, 200)


def test_a_rebalance_whose_beginning_is_missing_began_when_it_says(tables: TableRows) -> None:
    # Its end tells how long it took; what it stopped and awaited is unknown.
    columns = ("started_ms", "joined_ms", "ended_ms", "from_state", "cause", "detail")
    row = tables.row("rebalances", "without-beginning", *columns, rebalance=1)
    assert row == (700, 1000, 1010, None, "admin", None)
    unknown = ("awaited", "late", "stopped_partition_ms", "kept", "came")
    row = tables.row("rebalances", "without-beginning", *unknown, rebalance=1)
    assert row == (None, [], None, None, [])


def test_a_journal_may_begin_with_any_number(tables: TableRows) -> None:
    assert tables.row("nodes", "without-beginning", "first_seq", "missing") == (501, 0)


def test_members_that_were_there_before_are_known(tables: TableRows) -> None:
    columns = ("member", "began", "joined_ms", "ended", "ended_ms", "host")
    assert tables.rows("member_sessions", "without-beginning", *columns) == [
        ("a", "known", None, "left", 3000, "/a"),
        ("b", "known", None, "open", None, "/b"),
    ]


def test_generations_order_what_nodes_write_whose_clocks_disagree(tables: TableRows) -> None:
    # Time stands still until the clock that is behind has caught up.
    columns = ("partition", "holder", "from_ms", "to_ms", "began", "ended")
    assert tables.rows("ownership", "handed-over", *columns) == [
        (0, "a", 10_000, 15_000, "assigned", "left"),
        (1, "b", 10_000, 10_000, "assigned", "left"),
        (1, "a", 10_000, 15_000, "assigned", "left"),
    ]
    assert tables.rows("rebalances", "handed-over", "node", "started_ms") == [
        ("handed-over-1", 10_000),
        ("handed-over-2", 10_000),
    ]


def test_offsets_that_went_with_their_topic_do_not_say_when_a_group_was_read(
    tables: TableRows,
) -> None:
    columns = ("partition", "holder", "from_ms", "to_ms", "ended")
    assert tables.rows("ownership", "forgetful", *columns) == [
        (0, "a", 1000, 130_000, "left"),
        (1, "b", 1000, 70_000, "left"),
        (1, "a", 70_110, 130_000, "left"),
    ]
    assert tables.rows("rebalances", "forgetful", "started_ms", "ended_ms") == [
        (1000, 1000),
        (70_000, 70_110),
    ]
    behind = [tables.row("nodes", f"forgetful-{n}", "clock_behind_ms") for n in (1, 2)]
    assert behind == [(0,), (0,)]


def test_new_life_of_a_group_comes_after_its_deletion_elsewhere(tables: TableRows) -> None:
    columns = ("member", "joined_ms", "ended", "began")
    assert tables.rows("member_sessions", "anew", *columns) == [
        ("a", 1000, "left", "joined"),
        ("b", 5000, "open", "joined"),
        ("c", 8000, "open", "joined"),
    ]
    assert tables.rows("ownership", "anew", "holder", "from_ms", "to_ms", "ended") == [
        ("a", 1000, 2000, "left"),
        ("c", 9000, 9000, "open"),
    ]
    assert tables.row("nodes", "anew-1", "clock_behind_ms") == (500,)


@pytest.mark.parametrize(
    ("group", "commits", "last_offset", "advanced", "first_ms", "last_ms"),
    [("skewed", 8, 30, 29, 5000, 31_000), ("back", 4, 13, 3, 100_000, 102_000)],
)
def test_commits_come_in_the_order_of_the_lines_about_their_group(
    tables: TableRows,
    group: str,
    commits: int,
    last_offset: int,
    advanced: int,
    first_ms: int,
    last_ms: int,
) -> None:
    # Time stands still where a clock would make it run backwards.
    columns = ("commits", "last_offset", "advanced", "regressions", "first_ms", "last_ms")
    row = tables.row("commits", group, *columns)
    assert row == (commits, last_offset, advanced, 0, first_ms, last_ms)


def test_commits_show_that_a_clock_was_set_back(tables: TableRows) -> None:
    assert tables.row("nodes", "back", "clock_back_ms") == (51_000,)


def test_commits_come_by_date_where_nothing_else_tells_their_order(tables: TableRows) -> None:
    columns = ("commits", "first_offset", "last_offset", "advanced", "regressions")
    assert tables.row("commits", "offsets-alone", *columns) == (5, 5, 4, 3, 1)


def test_hand_overs_of_shards_are_read(tables: TableRows) -> None:
    # They are lines of their nodes like any other, and tell nothing of a group.
    assert tables.row("nodes", "handed-over-1", "lines", "missing", "first_ms") == (10, 0, 9000)
    assert tables.row("nodes", "handed-over-2", "lines", "missing", "last_ms") == (7, 0, 8000)
    assert not [row for row in tables.tables["unread"] if "handed-over" in row["segment"]]


def test_a_clock_that_is_behind_is_noticed(tables: TableRows) -> None:
    # By at least as much as its first line is behind the last one of the other node.
    assert tables.row("nodes", "handed-over-1", "clock_behind_ms", "clock_back_ms") == (0, 0)
    assert tables.row("nodes", "handed-over-2", "clock_behind_ms", "clock_back_ms") == (4000, 0)


def test_a_clock_that_was_set_back_is_noticed(tables: TableRows) -> None:
    # The most that a line is behind any line before it; with the earliest and latest times.
    columns = ("clock_back_ms", "first_ms", "last_ms", "starts", "crashes")
    assert tables.row("nodes", "set-back-twice", *columns) == (6000, 3000, 9000, 5, 4)


def test_a_clock_that_was_set_back_while_its_node_ran_is_noticed(tables: TableRows) -> None:
    # Its dates did not go back.
    assert tables.row("nodes", "set-while-running", "clock_back_ms") == (29_999,)
    assert ("clock", "set-while-running") in tables.rows("advice", "", "rule", "about")


# -- rebalances -----------------------------------------------------------------------------------


def test_rebalances_end_in_every_way(tables: TableRows) -> None:
    # One that goes on when a group is read back goes on; one that doesn't is interrupted.
    columns = ("outcome", "started_ms", "joined_ms", "ended_ms", "generation", "members")
    assert tables.rows("rebalances", "endings", *columns) == [
        ("completed", 0, 0, 0, 1, 2),
        ("superseded", 1000, 1100, 1150, 2, 2),
        ("interrupted", 1150, None, 3000, 2, None),
        ("emptied", 4000, None, 4500, 3, None),
        ("running", 6000, None, None, 3, None),
    ]


def test_only_what_was_completed_or_given_up_has_a_cost(tables: TableRows) -> None:
    # One that was interrupted by the node's end has none.
    columns = ("stopped_partition_ms", "prepare_ms", "complete_ms", "total_ms")
    assert tables.rows("rebalances", "endings", *columns) == [
        (0, 0, 0, 0),
        (50, 100, None, 150),
        (None, None, None, 1850),
        (0, None, None, 500),
        (None, None, None, None),
    ]


def test_who_came_and_went_is_told_with_the_generation(tables: TableRows) -> None:
    # Of those that led to none, the next one tells; an empty group is a generation, too.  One that
    # joined before a restart, and is not read back, came into none.
    assert tables.rows("rebalances", "endings", "came", "went") == [
        (["a", "b"], []),
        ([], []),
        ([], []),
        ([], ["b", "a"]),
        ([], []),
    ]


def test_those_who_were_late_are_told_the_slowest_first(tables: TableRows) -> None:
    # A member that joined at once is not; a static member goes by its present id.
    (late,) = tables.row("rebalances", "waiting", "late", rebalance=2)
    assert [
        tuple(each[name] for name in ("member", "host", "after_ms", "how")) for each in late
    ] == [
        ("b", "/b", 1000, "rebalance_expired"),
        ("s3", "/s3", 500, "joined"),
        ("c", "/c", 400, "joined"),
        ("nobody", "", 400, "unclaimed"),
    ]


def test_those_who_were_dropped_are_told(tables: TableRows) -> None:
    # They had died by themselves or not: only a session that ended is a death.
    columns = ("dropped", "went", "came", "detection_ms", "awaited")
    row = tables.row("rebalances", "waiting", *columns, rebalance=2)
    assert row == (["b"], ["b"], [], None, ["a", "b", "c", "s1"])


def test_rebalance_that_hangs_goes_on_until_its_nodes_journal_ends(tables: TableRows) -> None:
    end_ms = 59 * 60_000
    assert tables.row("rebalances", "hung", "outcome", rebalance=2) == ("running",)
    assert tables.row("group_health", "hung", "rebalancing_ms") == (end_ms - 1000,)
    columns = ("from_ms", "to_ms", "is_open")
    assert tables.rows("ownership_faults", "hung", *columns) == [
        (1100, end_ms, True),
        (1500, end_ms, True),
    ]


def test_of_a_group_that_was_given_away_nothing_is_known_from_then_on(tables: TableRows) -> None:
    columns = ("from_ms", "to_ms", "is_open")
    row = tables.row("ownership_faults", "hung-and-handed-over", *columns)
    assert row == (1000, 1090, True)
    assert tables.rows("advice", "hung-and-handed-over", "rule") == []


# -- members --------------------------------------------------------------------------------------


def test_a_process_that_keeps_coming_back_flaps(tables: TableRows) -> None:
    columns = ("member", "returns", "is_flapping", "back_after_ms", "identity")
    assert tables.rows("member_sessions", "flapping", *columns) == [
        ("f0", 0, False, 540_000, "f"),
        ("f1", 1, False, 540_000, "f"),
        ("f2", 2, False, 540_000, "f"),
        ("f3", 3, True, 69 * 60_000, "f"),
        ("f4", 0, False, None, "f"),
    ]


def test_a_member_that_is_turned_away_has_not_come_back(tables: TableRows) -> None:
    columns = ("joined_ms", "ended_ms", "ended", "back_after_ms", "returns", "kind")
    assert tables.row("member_sessions", "turned-away", *columns) == (
        *(0, 0, "turned_away", None, 0, "dynamic"),
    )


def test_a_member_is_known_by_what_it_said_as_it_came(tables: TableRows) -> None:
    columns = ("client_id", "session_timeout_ms", "rebalance_timeout_ms", "protocols", "topics")
    row = tables.row("member_sessions", "turned-away", *columns, "join_reason", "leave_reason")
    assert row == ("c", 10_000, 60_000, ["range"], ["turned-away"], "it is new", "")


# -- commits --------------------------------------------------------------------------------------


def test_commits_are_counted_by_hour(tables: TableRows) -> None:
    columns = ("partition", "hour_ms", "commits", "first_ms", "last_ms")
    assert tables.rows("commits", "commits", *columns) == [
        (0, 0, 3, _HOUR_MS - 120_000, _HOUR_MS - 1),
        (0, _HOUR_MS, 2, _HOUR_MS, _HOUR_MS + 30_000),
        (1, 0, 1, _HOUR_MS - 120_000, _HOUR_MS - 120_000),
    ]


def test_offsets_that_go_back_are_noticed(tables: TableRows) -> None:
    # Over the hour's end, too; steps up and steps down are told apart.
    columns = ("first_offset", "last_offset", "advanced", "regressions", "deepest_regression")
    assert tables.rows("commits", "commits", *columns, partition=0) == [
        (10, 20, 20, 1, 10),
        (18, 40, 22, 1, 2),
    ]


def test_who_commits_is_counted(tables: TableRows) -> None:
    rows = tables.rows("commits", "commits", "members", "outside", "end_offset", "lag")
    assert rows == [(2, 0, None, None), (1, 1, None, None), (1, 0, None, None)]


def test_a_rate_takes_two_commits(tables: TableRows) -> None:
    # Two within half a minute are two a minute: one every half.
    (before, after, only) = tables.rows("commits", "commits", "per_minute")
    assert before[0] == pytest.approx(2 * 60_000 / 119_999)
    assert (after, only) == ((2.0,), (None,))


def test_an_hour_of_commits_alone_is_an_hour(tables: TableRows) -> None:
    # Nothing is known of members, and nothing stood still.
    columns = ("hour_ms", "members", "commits", "regressions", "availability", "stickiness")
    assert tables.rows("group_health", "commits", *columns) == [
        (0, 0, 4, 1, None, None),
        (_HOUR_MS, 0, 2, 1, None, None),
    ]


# -- hours ----------------------------------------------------------------------------------------


def test_time_is_shared_out_among_hours(tables: TableRows) -> None:
    # Each has what falls into it; a rebalance counts where it began.
    columns = ("hour_ms", "owned_partition_ms", "stopped_partition_ms", "rebalancing_ms")
    assert tables.rows("group_health", "hours", *columns, "rebalances", "members") == [
        (0, 1000, 0, 0, 1, 1),
        (_HOUR_MS, _HOUR_MS - 400, 400, 500, 1, 1),
        (2 * _HOUR_MS, 0, 600, 600, 0, 1),
    ]


def test_availability_is_the_share_of_time_with_an_owner(tables: TableRows) -> None:
    rows = tables.rows("group_health", "hours", "availability", "stickiness", "by_cause")
    assert rows == [
        (1.0, None, {"member_joined": 1}),
        (pytest.approx((_HOUR_MS - 400) / _HOUR_MS), 1.0, {"admin": 1}),
        (0.0, None, {}),
    ]
