"""Who owned what, twice or not at all, with answers known beforehand.

What happens in these groups, `stories/ownership.py` tells.
"""

from __future__ import annotations

import pytest

from tests.support.pipeline_tables import TableRows

_INTERVAL = ("partition", "holder", "from_ms", "to_ms", "began", "ended")
_FAULT = ("fault", "partition", "from_ms", "to_ms", "sure_ms", "most_ms", "cause")


# -- two owners -----------------------------------------------------------------------------------


def test_a_partition_that_is_given_to_two_has_two_owners(tables: TableRows) -> None:
    row = tables.row("ownership_faults", "assigned-twice", *_FAULT, "holder", "next_holder")
    assert row == ("overlap", 1, 10, 1000, 990, 990, "assigned_twice", "a", "b")


def test_time_with_two_owners_counts_once(tables: TableRows) -> None:
    # The hour has no more time than there is: two partitions, from 10 to 1060.
    row = tables.row("group_health", "assigned-twice", "owned_partition_ms", "overlaps")
    assert row == (2 * 1050, 1)


def test_time_with_three_owners_counts_once(tables: TableRows) -> None:
    # Of three owners each two overlap, which is three overlaps.
    row = tables.row("group_health", "three-owners", "owned_partition_ms", "overlaps")
    assert row == (1000, 3)


def test_a_partition_that_is_taken_while_it_is_held_may_have_two_owners(tables: TableRows) -> None:
    # Until the former owner joins without it, which it does 40 ms into the next rebalance.
    row = tables.row("ownership_faults", "taken-while-held", *_FAULT, "began")
    assert row == ("overlap", 1, 2110, 2240, 0, 130, "taken_while_held", "taken")


def test_a_partition_is_released_when_its_former_owner_says_so(tables: TableRows) -> None:
    # The interval ends with the assignment, and the work some time later.
    columns = (*_INTERVAL, "released_ms", "generation", "last_generation")
    rows = tables.rows("ownership", "taken-while-held", *columns, partition=1)
    assert rows == [
        (1, "a", 0, 2110, "assigned", "taken", 2240, 1, 1),
        (1, "b", 2110, 2310, "assigned", "open", 2310, 2, 3),
    ]


def test_an_owner_that_holds_on_never_let_go(tables: TableRows) -> None:
    # Its interval is one, and both own the partition for certain meanwhile.
    assert tables.rows("ownership", "held-on", *_INTERVAL, "released_ms") == [
        (0, "a", 0, 2110, "assigned", "taken", 3050),
        (0, "b", 1110, 3110, "assigned", "open", 3110),
    ]
    row = tables.row("ownership_faults", "held-on", *_FAULT)
    assert row == ("overlap", 0, 1110, 3050, 1000, 1940, "taken_while_held")


def test_a_member_that_is_removed_alive_may_work_until_its_session_ends(tables: TableRows) -> None:
    # It was heard of at 800, so it may go on until 10800.
    row = tables.row("ownership_faults", "removed-alive", *_FAULT, "holder", fault="overlap")
    assert row == ("overlap", 0, 1110, 10_800, 0, 9690, "removed", "i")


def test_nobody_owns_what_a_member_had_that_was_removed(tables: TableRows) -> None:
    row = tables.row("ownership_faults", "removed-alive", *_FAULT, "rebalance", fault="gap")
    assert row == ("gap", 0, 1000, 1110, 110, 110, "member_removed", 2)


def test_what_a_member_claims_it_owns(tables: TableRows) -> None:
    # From its join on; and what it claims of another one's both own for certain.
    assert tables.rows("ownership", "claimed", *_INTERVAL, holder="b") == [
        (0, "b", 1030, 1110, "claimed", "taken"),
        (1, "b", 1030, 1110, "claimed", "open"),
    ]
    row = tables.row("ownership_faults", "claimed", *_FAULT)
    assert row == ("overlap", 0, 1030, 1110, 80, 80, "claimed_twice")


# -- static members -------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_takes_over(tables: TableRows) -> None:
    # Its holder stays, and the member id changes.
    columns = ("holder", "member", "host", "from_ms", "to_ms", "began", "ended", "last_generation")
    assert tables.rows("ownership", "replaced", *columns) == [
        ("i", "a1", "/a1", 0, 1000, "assigned", "replaced", 1),
        ("i", "a2", "/a2", 1000, 2000, "replaced", "replaced", 1),
        ("i", "a3", "/a3", 2000, 3110, "replaced", "open", 2),
    ]


def test_a_former_self_that_works_on_is_a_second_owner_perhaps(tables: TableRows) -> None:
    columns = (*_FAULT, "holder", "next_holder", "member", "next_member")
    assert tables.rows("ownership_faults", "replaced", *columns, fault="overlap") == [
        ("overlap", 0, 1000, 1400, 0, 400, "replaced", "i", "i", "a1", "a2")
    ]
    assert tables.row("group_health", "replaced", "overlaps", "possible_overlaps") == (0, 1)


def test_partitions_wait_for_a_static_member_that_comes_back(tables: TableRows) -> None:
    # It was not heard of for some time before; no rebalance follows.
    columns = (*_FAULT, "member", "rebalance")
    assert tables.rows("ownership_faults", "replaced", *columns, fault="silence") == [
        ("silence", 0, 993, 1000, 7, 7, "replaced", "a1", None),
        ("silence", 0, 1993, 2000, 7, 7, "replaced", "a2", None),
    ]


def test_a_former_self_may_work_until_it_is_refused(tables: TableRows) -> None:
    # The last refusal counts; who is never refused is taken to be gone.
    rows = tables.rows("ownership", "replaced", "member", "released_ms")
    assert rows == [("a1", 1400), ("a2", 2000), ("a3", 3110)]


def test_sessions_of_a_static_member_follow_upon_each_other(tables: TableRows) -> None:
    columns = ("member", "instance", "kind", "joined_ms", "ended_ms", "began", "ended")
    assert tables.rows("member_sessions", "replaced", *columns, "client_id") == [
        ("a1", "i", "static", 0, 1000, "joined", "replaced", "c"),
        ("a2", "i", "static", 1000, 2000, "replaced", "replaced", "c"),
        ("a3", "i", "static", 2000, None, "replaced", "open", "c"),
    ]


def test_a_static_member_that_is_away_lets_go_of_nothing(tables: TableRows) -> None:
    assert tables.rows("ownership", "away", *_INTERVAL, holder="i") == [
        (0, "i", 0, 1510, "assigned", "open")
    ]
    (late,) = tables.row("rebalances", "away", "late", rebalance=2)
    assert [(each["member"], each["after_ms"], each["how"]) for each in late] == [
        ("a", 500, "away"),
        ("b", 20, "joined"),
    ]


def test_a_static_member_owns_what_waits_for_it_until_its_place_is_given_up(
    tables: TableRows,
) -> None:
    group = "away-for-too-long"
    assert tables.rows("ownership", group, "partition", "released_ms", holder="i") == [(0, 90_000)]
    (ended,) = tables.row("member_sessions", group, "ended", member="a")
    assert ended == "registration_expired"
    columns = ("cause", "went", "detection_ms", "stopped_partition_ms", "silent_partition_ms")
    assert tables.row("rebalances", group, *columns, rebalance=2) == (
        *("registration_expired", ["a"], 60_000, 500, 60_000),
    )


# -- none -----------------------------------------------------------------------------------------


def test_eager_members_stand_still_from_their_joins_on(tables: TableRows) -> None:
    # Each until the assignment is in place: 20 ms and 100 ms.
    assert tables.rows("ownership_faults", "eager", *_FAULT, "began", "next_holder") == [
        ("gap", 0, 1100, 1120, 20, 20, "admin", "let_go", "a"),
        ("gap", 1, 1020, 1120, 100, 100, "admin", "let_go", "b"),
    ]
    assert tables.rows("rebalances", "eager", "stopped_partition_ms") == [(0,), (120,)]


def test_what_a_dead_member_had_stands_still_from_when_it_is_given_up(tables: TableRows) -> None:
    told = (*_FAULT, "began", "rebalance", "is_open")
    row = tables.row("ownership_faults", "dead", *told, fault="gap")
    assert row == (
        *("gap", 0, 12_000, 12_500, 500, 500),
        *("session_expired", "session_expired", 2, False),
    )
    assert tables.row("ownership", "dead", "released_ms", holder="a") == (12_000,)
    columns = ("went", "detection_ms", "kept", "keepable", "partitions", "stopped_partition_ms")
    assert tables.row("rebalances", "dead", *columns, rebalance=2) == (["a"], 10_100, 1, 1, 2, 500)


def test_the_silence_before_that_is_a_part_of_what_a_death_costs(tables: TableRows) -> None:
    # It stopped before it was given up, and sent nothing since 1900.
    silence = tables.row(
        "ownership_faults", "dead", *_FAULT, "rebalance", "holder", fault="silence"
    )
    assert silence == ("silence", 0, 1900, 12_000, 10_100, 10_100, "session_expired", 2, "a")
    columns = ("cause", "stopped_partition_ms", "silent_partition_ms")
    assert tables.rows("rebalances", "dead", *columns) == [
        ("member_joined", 0, 0),
        ("session_expired", 500, 10_100),
    ]
    # Both partitions from 0 to 12,500 ms, of which one had no owner that worked.
    health = ("stopped_partition_ms", "silent_partition_ms", "availability")
    assert tables.row("group_health", "dead", *health) == (500, 10_100, 14_400 / 25_000)


def test_a_silence_counts_from_the_assignment_on(tables: TableRows) -> None:
    # Before that, what it gives stood still, and that has been counted.
    columns = (*_FAULT, "rebalance", "member")
    row = tables.row("ownership_faults", "dead-since-it-joined", *columns, fault="silence")
    assert row == ("silence", 1, 2110, 12_010, 9900, 9900, "session_expired", 3, "b")


def test_nobody_pays_for_silence_before_a_group_starts_afresh(tables: TableRows) -> None:
    rows = tables.rows("ownership_faults", "dead-and-empty", *_FAULT, "rebalance", fault="silence")
    assert rows == [("silence", 0, 1900, 12_000, 10_100, 10_100, "session_expired", None)]
    costs = tables.rows("rebalances", "dead-and-empty", "silent_partition_ms")
    assert costs == [(0,), (0,)]


def test_members_of_one_name_and_host_are_two(tables: TableRows) -> None:
    # The third is the first one, come back; who comes while both are there is another one.
    rows = tables.rows("member_sessions", "one-host", "member", "identity", "back_after_ms")
    assert rows == [
        ("c-1", "c@/h", 500),
        ("c-2", "c@/h#2", None),
        ("c-3", "c@/h", None),
        ("c-4", "c@/h#3", None),
    ]


def test_a_gap_that_goes_on_ends_with_the_journal(tables: TableRows) -> None:
    row = tables.row("ownership_faults", "unended", *_FAULT, "is_open", "rebalance", "next_holder")
    assert row == ("gap", 0, 1000, 3000, 2000, 2000, "member_left", True, 2, None)
    columns = ("outcome", "ended_ms", "total_ms", "stopped_partition_ms", "generation")
    assert tables.row("rebalances", "unended", *columns, rebalance=2) == (
        *("running", None, None, None, 1),
    )


def test_the_time_of_a_rebalance_that_goes_on_counts(tables: TableRows) -> None:
    # An operator who looks at a group that is stuck wants to see it.
    assert tables.row("group_health", "unended", "rebalancing_ms") == (2000,)


def test_what_nobody_is_to_have_does_not_stand_still(tables: TableRows) -> None:
    # Its gap ends with the assignment that leaves it out for good.
    assert tables.rows("ownership_faults", "nobodys", *_FAULT, "next_holder", partition=1) == [
        ("gap", 1, 1060, 1110, 50, 50, "subscription_changed", None)
    ]


def test_a_partition_stands_still_between_the_two_steps(tables: TableRows) -> None:
    # From when it is taken until it is given; the second rebalance pays.
    row = tables.row("ownership_faults", "two-steps", *_FAULT, "rebalance", "began")
    assert row == ("gap", 1, 1110, 1310, 200, 200, "revocation_follow_up", 3, "taken")
    rows = tables.rows("rebalances", "two-steps", "stopped_partition_ms", "kept", "keepable")
    assert rows == [(0, 0, 0), (0, 1, 1), (200, 1, 1)]


def test_a_follow_up_belongs_to_what_called_for_it(tables: TableRows) -> None:
    # Its chain begins with the rebalance that a newcomer caused.
    columns = ("follows", "root", "root_cause", "cause_chain")
    assert tables.rows("rebalances", "two-steps", *columns) == [
        (None, 1, "member_joined", ["member_joined"]),
        (None, 2, "member_joined", ["member_joined"]),
        (2, 2, "member_joined", ["member_joined", "revocation_follow_up"]),
    ]


def test_what_is_deleted_does_not_stand_still(tables: TableRows) -> None:
    rows = tables.rows("ownership_faults", "topic-deleted", *_FAULT, "next_holder", "is_open")
    assert rows == [("gap", number, 1060, 1080, 20, 20, "admin", None, False) for number in (0, 1)]


def test_what_was_deleted_before_does_not_stand_still(tables: TableRows) -> None:
    assert tables.rows("ownership_faults", "topic-deleted-first", *_FAULT) == []


@pytest.mark.parametrize("group", ["deleted-ahead", "deleted-behind"])
def test_deletion_by_another_nodes_clock_was_when_the_group_heard_of_it(
    tables: TableRows, group: str
) -> None:
    # Its partitions do not stand still: there is no work for them.
    assert tables.rows("ownership_faults", group, *_FAULT) == []
    assert tables.row("rebalances", group, "stopped_partition_ms", rebalance=2) == (0,)


def test_what_was_made_anew_is_missed_once_somebody_had_it(tables: TableRows) -> None:
    assert tables.rows("ownership_faults", "topic-made-anew", *_FAULT) == []


def test_what_was_deleted_before_it_was_given_stands_still(tables: TableRows) -> None:
    # The owner has the new partition by then, whatever it had before.
    assert tables.rows("ownership_faults", "topic-made-anew-and-kept", *_FAULT) == [
        ("gap", 0, 5050, 5110, 60, 60, "admin")
    ]


# -- nodes and time -------------------------------------------------------------------------------


def test_owners_go_on_over_a_restart(tables: TableRows) -> None:
    # What was not read back is lost, for an unknown reason.
    assert tables.rows("ownership", "restarted", *_INTERVAL) == [
        (0, "a", 0, 6000, "assigned", "open"),
        (1, "b", 0, 5000, "assigned", "lost"),
    ]
    assert tables.rows("ownership_faults", "restarted", *_FAULT) == []


def test_what_happened_in_lost_generations_shows_as_a_node_comes_back(tables: TableRows) -> None:
    # From then on others have it; who is not there any more is lost.
    assert tables.rows("ownership", "lost-generations", *_INTERVAL, "generation") == [
        (0, "a", 0, 5000, "assigned", "lost", 1),
        (0, "b", 5000, 6000, "recovered", "open", 7),
        (1, "b", 0, 5000, "assigned", "lost", 1),
        (1, "c", 5000, 6000, "recovered", "left", 7),
    ]
    columns = ("member", "joined_ms", "ended_ms", "began", "ended")
    assert tables.rows("member_sessions", "lost-generations", *columns) == [
        ("a", 0, 5000, "joined", "lost"),
        ("b", 0, None, "joined", "open"),
        ("c", None, 6000, "known", "left"),
    ]


def test_joins_count_from_when_the_node_came_back(tables: TableRows) -> None:
    # No member let go before: they had gone on, and joined after the restart.
    assert tables.rows("ownership_faults", "restarted-in-a-phase", *_FAULT) == [
        ("gap", 0, 5300, 5310, 10, 10, "admin"),
        ("gap", 1, 5100, 5310, 210, 210, "admin"),
    ]
    columns = ("started_ms", "joined_ms", "ended_ms", "outcome", "stopped_partition_ms")
    row = tables.row("rebalances", "restarted-in-a-phase", *columns, rebalance=2)
    assert row == (1000, 5300, 5310, "completed", 220)


def test_what_a_rebalance_took_and_cost_is_right_though_the_clock_was_set(
    tables: TableRows,
) -> None:
    # Its dates differ by a minute more, or by half as much.
    columns = ("started_ms", "ended_ms", "prepare_ms", "complete_ms", "total_ms")
    assert tables.rows("rebalances", "clock-set", *columns)[1:] == [
        (1000, 63_010, 2000, 10, 2010),
        (101_000, 101_510, 1000, 20, 1020),
        (120_000, 120_510, 500, 10, 510),
    ]
    costs = tables.rows("rebalances", "clock-set", "stopped_partition_ms")
    assert costs[1:] == [(2010 + 1810,), (2 * 620,), (2 * 10,)]


def test_time_stands_still_until_a_clock_that_was_set_back_has_caught_up(tables: TableRows) -> None:
    # Nothing ends before it begins, and no owners overlap.
    assert tables.rows("ownership", "set-back", *_INTERVAL, partition=0) == [
        (0, "a", 60_000, 70_110, "assigned", "open")
    ]
    assert tables.rows("ownership_faults", "set-back", *_FAULT) == [
        ("gap", 1, 70_000, 70_110, 110, 110, "member_left")
    ]


def test_lines_of_one_moment_have_an_order(tables: TableRows) -> None:
    # The numbers of the lines decide, and there is no time for anything to go wrong.
    assert tables.rows("ownership", "ties", *_INTERVAL) == [
        (0, "a", 0, 0, "assigned", "open"),
        (0, "b", 0, 0, "assigned", "left"),
        (1, "a", 0, 0, "assigned", "open"),
    ]
    assert tables.rows("ownership_faults", "ties", *_FAULT) == []


def test_a_restart_in_a_rebalance_ends_no_gap(tables: TableRows) -> None:
    rows = tables.rows("rebalances", "restarted-and-superseded", "outcome", "stopped_partition_ms")
    assert rows == [("completed", 0), ("superseded", 1000), ("completed", 110)]
    row = tables.row("ownership_faults", "restarted-and-superseded", *_FAULT, "next_holder")
    assert row == ("gap", 0, 1000, 2110, 1110, 1110, "topic_changed", "b")


def test_what_members_had_that_went_before_a_restart_has_moved(tables: TableRows) -> None:
    # Their coordinator says that one has moved, and does not know of the two.
    columns = ("moved", "stopped_partition_ms", "silent_partition_ms", "keepable")
    row = tables.row("rebalances", "gone-before-a-restart", *columns, rebalance=2)
    assert row == (1 + 2, 2 * 8010, 2 * 900, 1)
    gap = (*_FAULT, "next_holder", "rebalance")
    assert tables.rows("ownership_faults", "gone-before-a-restart", *gap, fault="gap") == [
        ("gap", 0, 1000, 9010, 8010, 8010, "session_expired", "b", 2),
        ("gap", 1, 1000, 9010, 8010, 8010, "session_expired", "b", 2),
    ]


def test_members_were_waited_for_before_a_restart_too(tables: TableRows) -> None:
    # Joins count from the restart, and waiting from the start of the rebalance.
    (late,) = tables.row("rebalances", "gone-before-a-restart", "late", rebalance=2)
    assert [(each["member"], each["after_ms"], each["how"]) for each in late] == [
        ("b", 8000, "joined")
    ]
    (late,) = tables.row("rebalances", "restarted-in-a-phase", "late", rebalance=2)
    assert [(each["member"], each["after_ms"]) for each in late] == [("a", 4300), ("b", 4100)]
    # A restart after they had joined makes no difference.
    (late,) = tables.row("rebalances", "restarted-in-a-second-phase", "late", rebalance=2)
    assert [(each["member"], each["after_ms"]) for each in late] == [("a", 100), ("b", 20)]


def test_members_that_a_restart_forgot_did_not_come(tables: TableRows) -> None:
    # One had joined for the generation, which had not begun, and comes again under another id.
    columns = ("came", "went", "members")
    row = tables.row("rebalances", "forgotten-by-a-restart", *columns, rebalance=2)
    assert row == (["c2"], ["b"], 2)
    # It is lost, and so is not missing from those that went.
    row = tables.row("member_sessions", "forgotten-by-a-restart", "began", "ended", member="c1")
    assert row == ("joined", "lost")


def test_a_restart_between_the_rounds_of_a_hand_over_ends_no_gap(tables: TableRows) -> None:
    row = tables.row("ownership_faults", "restarted-between-rounds", *_FAULT, "next_holder")
    assert row == ("gap", 1, 1110, 6110, 5000, 5000, "revocation_follow_up", "b")
    columns = ("moved", "stopped_partition_ms")
    row = tables.row("rebalances", "restarted-between-rounds", *columns, rebalance=3)
    assert row == (1 + 1, 5000)


def test_a_hand_over_of_stock_clients_is_one_over_a_restart_too(tables: TableRows) -> None:
    rows = tables.rows("rebalances", "restarted-between-unasked-rounds", "moved")
    assert rows == [(1,), (1,), (1 + 1,)]
    rows = tables.rows("rebalances", "restarted-with-less-to-do", "moved")
    assert rows == [(1,), (1,), (1,)]


def test_what_was_on_its_way_in_a_restart_moves_unseen_in_any_later_round(
    tables: TableRows,
) -> None:
    rows = tables.rows("rebalances", "restarted-before-three-rounds", "moved")
    assert rows == [(1,), (1,), (1 + 1,), (1 + 1,)]


def test_what_members_gave_up_as_they_joined_they_do_not_have_after_a_restart(
    tables: TableRows,
) -> None:
    # The node reads back what they were given before.
    assert tables.rows("ownership_faults", "restarted-in-a-second-phase", *_FAULT) == [
        ("gap", 0, 1100, 5010, 3910, 3910, "admin"),
        ("gap", 1, 1020, 5010, 3990, 3990, "admin"),
    ]
    row = tables.row("rebalances", "restarted-in-a-second-phase", "moved", rebalance=2)
    assert row == (1,)


def test_costs_of_a_rebalance_whose_beginning_is_missing_are_unknown(tables: TableRows) -> None:
    # Who went before the restart, and with what, is in no line.
    columns = ("moved", "stopped_partition_ms", "silent_partition_ms", "kept")
    row = tables.row("rebalances", "lost-before-a-restart", *columns, rebalance=2)
    assert row == (1, None, None, 1)


# -- what can't be known --------------------------------------------------------------------------


def test_an_assignment_that_cannot_be_read_ends_all_knowledge(tables: TableRows) -> None:
    assert tables.rows("ownership", "unreadable", *_INTERVAL) == [
        (0, "a", 0, 1110, "assigned", "lost"),
        (0, "a", 2110, 3060, "assigned", "let_go"),
        (0, "a", 3110, 3110, "assigned", "open"),
    ]


def test_what_cannot_be_known_costs_nobody_knows_how_much(tables: TableRows) -> None:
    # The cost of the rebalance that follows upon it is unknown, not zero.
    columns = ("partitions", "kept", "keepable", "stopped_partition_ms")
    assert tables.rows("rebalances", "unreadable", *columns) == [
        (1, 0, 0, 0),
        (None, None, None, 0),
        (1, None, None, None),
        (1, 1, 1, 50),
    ]


def test_a_group_that_is_deleted_has_no_gap(tables: TableRows) -> None:
    # No member is there to own anything; its rebalances are numbered on.
    assert tables.rows("ownership_faults", "deleted", *_FAULT) == []
    assert tables.rows("ownership", "deleted", *_INTERVAL) == [
        (0, "a", 0, 1000, "assigned", "left"),
        (0, "b", 9000, 9000, "assigned", "open"),
    ]
    columns = ("rebalance", "outcome", "generation", "came", "went", "kept")
    assert tables.rows("rebalances", "deleted", *columns) == [
        (1, "completed", 1, ["a"], [], 0),
        (2, "emptied", 2, [], ["a"], 0),
        (3, "completed", 3, ["b"], [], 0),
    ]
