"""What lines are worth, in which order they go, and what they tell besides ownership.

All stories are one journal, so that Spark reads it once; each is about a group of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from coterie_protocol.journal import GroupEmptied
from tests.pipeline.oracle.tables import oracle_tables
from tests.support.pipeline_tables import Told, spark_tables
from tests.support.scribe import BEGINNING_MS, Scribe

_HOUR_MS = 3_600_000
_STORIES: list[Callable[[], Scribe]] = []


def story(tell: Callable[[], Scribe]) -> Callable[[], Scribe]:
    """Have a story told in the journal of this module."""
    _STORIES.append(tell)
    return tell


@pytest.fixture(scope="module")
def makers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """The tables of all stories, of Spark and of the oracle; Spark gets the last file first."""
    folder = tmp_path_factory.mktemp("stories")
    scribes = [tell() for tell in _STORIES]
    paths = [path for scribe in scribes for path in scribe.write(folder, packed=_PACKED)]
    return {
        "spark": Told(spark_tables(spark, sorted(paths, reverse=True))),
        "oracle": Told(oracle_tables(folder)),
    }


@pytest.fixture(params=["spark", "oracle"])
def told(request: pytest.FixtureRequest, makers: dict[str, Told]) -> Told:
    """The tables, of one of both."""
    return makers[request.param]


# -- lines ----------------------------------------------------------------------------------------


@story
def killed() -> Scribe:
    """A node is killed while it writes, starts again, and stops in good order."""
    scribe = Scribe("killed")
    scribe.node_started(0)
    scribe.founded(10, a=[0])
    scribe.torn(900, GroupEmptied(group="killed", generation=9), 60)
    scribe.recovered(1000, a=[0])
    scribe.node_started(1000)
    scribe.node_stopped(2000)
    scribe.begin_file()
    scribe.node_started(3000)
    return scribe


def test_a_torn_line_is_kept_apart_and_its_number_is_used_again(told: Told) -> None:
    """Nothing is missing, and what it would have said has not happened."""
    assert told.tables["unread"] != []
    columns = ("lines", "missing", "gaps", "conflicts", "starts", "crashes")
    assert told.row("nodes", "killed", *columns) == (9, 0, 0, 0, 3, 1)
    assert told.rows("rebalances", "killed", "outcome") == [("completed",)]


def test_a_torn_line_is_told(told: Told) -> None:
    """As far as it goes."""
    texts = [row["excerpt"] for row in told.tables["unread"] if row["why"] == "torn"]
    assert len(texts) == 1
    assert texts[0].startswith('{"v":1,"ts":16999992009')
    assert len(texts[0]) == 60


@story
def torn_whole() -> Scribe:
    """All of a line was written but its line break, and so its number was used again."""
    scribe = Scribe("torn-whole")
    scribe.founded(0, a=[0])
    scribe.torn(900, GroupEmptied(group="torn-whole", generation=9), 10_000)
    scribe.recovered(1000, a=[0])
    return scribe


def test_of_two_lines_with_one_number_the_one_in_the_later_file_counts(told: Told) -> None:
    """The group was not emptied: nobody was ever told."""
    assert told.row("nodes", "torn-whole", "lines", "conflicts", "missing") == (5, 1, 0)
    assert told.row("ownership", "torn-whole", "ended") == ("open",)


@story
def strange() -> Scribe:
    """Lines of other programs, of a newer version, of an unknown kind, and of a wrong type."""
    scribe = Scribe("strange")
    scribe.founded(0, a=[0])
    envelope = {"v": 1, "ts": BEGINNING_MS + 50, "node": "strange", "group": "strange"}
    gone = {"member": "a", "instance": None, "host": "/a", "how": "left", "silent_ms": 0}
    lines = (
        "2026-11-20 12:00:00 INFO all is well",
        '{"message": "all is well"}',
        json.dumps({**envelope, "v": 2, "seq": 5, "kind": "group_emptied", "generation": 9}),
        json.dumps({**envelope, "seq": 6, "kind": "group_blessed"}),
        json.dumps({**envelope, "seq": 7, "kind": "group_emptied", "generation": "nine"}),
        json.dumps({**envelope, "seq": 8, "kind": "member_gone", **gone}),
    )
    for line in lines:
        scribe.text(line)
    scribe.seq = 8
    scribe.joined(100, "b")
    return scribe


def test_lines_that_cannot_be_read_say_why(told: Told) -> None:
    """Each has its reason; a field that all lines of a kind have must not be missing."""
    whys = sorted(
        (row["why"], row["seq"])
        for row in told.tables["unread"]
        if "/journal-str" in row["segment"]
    )
    assert [why for why, _ in whys] == [
        *("foreign", "foreign", "misfit", "misfit", "newer", "unknown_kind"),
    ]
    assert [seq for why, seq in whys if why in ("newer", "unknown_kind")] == [5, 6]


def test_lines_that_cannot_be_read_are_not_missing(told: Told) -> None:
    """Those that have a number at all, and none of them tells anything of the group."""
    assert told.row("nodes", "strange", "first_seq", "last_seq", "missing") == (1, 9, 0)
    assert told.rows("member_sessions", "strange", "member", "ended") == [
        ("a", "open"),
        ("b", "open"),
    ]


@story
def given_twice() -> Scribe:
    """A file is there as it is and packed."""
    scribe = Scribe("given-twice")
    scribe.founded(0, a=[0])
    scribe.committed(10, "a", p0=1)
    scribe.begin_file()
    scribe.committed(20, "a", p0=2)
    return scribe


_PACKED = ("journal-given-twice-0000000000000001.jsonl",)


def test_lines_that_are_there_twice_count_once(told: Told) -> None:
    """The node's row tells how many there were."""
    assert told.row("nodes", "given-twice", "lines", "duplicates", "conflicts") == (6, 5, 0)
    assert told.row("commits", "given-twice", "commits", "last_offset") == (2, 2)
    assert told.rows("rebalances", "given-twice", "rebalance") == [(1,)]


@story
def with_holes() -> Scribe:
    """The node dropped lines in two places."""
    scribe = Scribe("with-holes")
    scribe.founded(0, a=[0])
    scribe.seq += 2
    scribe.joined(100, "b")
    scribe.seq += 1
    scribe.joined(200, "c")
    return scribe


def test_numbers_that_are_missing_are_counted(told: Told) -> None:
    """How many there are, and in how many places."""
    columns = ("lines", "first_seq", "last_seq", "missing", "gaps", "first_ms", "last_ms")
    assert told.row("nodes", "with-holes", *columns) == (6, 1, 9, 3, 2, 0, 200)


@story
def without_beginning() -> Scribe:
    """The oldest files were deleted: the journal begins in the midst of a rebalance."""
    scribe = Scribe("without-beginning", seq=500, generation=41)
    scribe.phase(1000, 300, {"a": (300, []), "b": (0, [])})
    scribe.completed(1010, {"a": [0], "b": [1]}, total_ms=310)
    scribe.started(2000, "admin", ["a", "b"], follows=42)
    scribe.phase(2100, 100, {"a": (100, []), "b": (100, [])})
    scribe.completed(2110, {"a": [0], "b": [1]})
    scribe.gone(3000, "a")
    return scribe


def test_a_rebalance_whose_beginning_is_missing_began_when_it_says(told: Told) -> None:
    """Its end tells how long it took; what it stopped and whom it awaited nobody knows."""
    columns = ("started_ms", "joined_ms", "ended_ms", "from_state", "cause", "detail")
    row = told.row("rebalances", "without-beginning", *columns, rebalance=1)
    assert row == (700, 1000, 1010, None, "admin", None)
    unknown = ("awaited", "late", "stopped_partition_ms", "kept", "came")
    row = told.row("rebalances", "without-beginning", *unknown, rebalance=1)
    assert row == (None, [], None, None, [])


def test_a_journal_may_begin_with_any_number(told: Told) -> None:
    """What is before it is not missing."""
    assert told.row("nodes", "without-beginning", "first_seq", "missing") == (501, 0)


def test_members_that_were_there_before_are_known(told: Told) -> None:
    """Since when nobody knows."""
    columns = ("member", "began", "joined_ms", "ended", "ended_ms", "host")
    assert told.rows("member_sessions", "without-beginning", *columns) == [
        ("a", "known", None, "left", 3000, "/a"),
        ("b", "known", None, "open", None, "/b"),
    ]


@story
def handed_over() -> Scribe:
    """Another node takes the group over, whose clock is 5 s behind; then the first one again."""
    first = Scribe("handed-over", "handed-over-1")
    first.founded(10_000, a=[0], b=[1])
    second = first.on("handed-over-2")
    second.recovered(6000, generation=1, a=[0], b=[1])
    second.gone(7000, "b")
    second.started(7000, "member_left", ["a"])
    second.phase(7100, 100, {"a": (100, [0])})
    second.completed(7110, {"a": [0, 1]})
    first.begin_file()
    first.recovered(14_000, generation=2, a=[0, 1])
    first.gone(15_000, "a")
    return first


def test_generations_order_what_nodes_write_whose_clocks_disagree(told: Told) -> None:
    """Time stands still until the clock that is behind has caught up."""
    columns = ("partition", "holder", "from_ms", "to_ms", "began", "ended")
    assert told.rows("ownership", "handed-over", *columns) == [
        (0, "a", 10_000, 15_000, "assigned", "left"),
        (1, "b", 10_000, 10_000, "assigned", "left"),
        (1, "a", 10_000, 15_000, "assigned", "left"),
    ]
    assert told.rows("rebalances", "handed-over", "node", "started_ms") == [
        ("handed-over-1", 10_000),
        ("handed-over-2", 10_000),
    ]


def test_a_clock_that_is_behind_is_noticed(told: Told) -> None:
    """By at least as much as its first line is behind the last one of the other node."""
    assert told.row("nodes", "handed-over-1", "clock_behind_ms", "clock_back_ms") == (0, 0)
    assert told.row("nodes", "handed-over-2", "clock_behind_ms", "clock_back_ms") == (4000, 0)


@story
def set_back() -> Scribe:
    """A node's clock is set back twice."""
    scribe = Scribe("set-back-twice")
    for at in (5000, 4000, 9000, 3000, 3500):
        scribe.node_started(at)
    return scribe


def test_a_clock_that_was_set_back_is_noticed(told: Told) -> None:
    """The most that a line is behind any line before it; with the earliest and latest times."""
    columns = ("clock_back_ms", "first_ms", "last_ms", "starts", "crashes")
    assert told.row("nodes", "set-back-twice", *columns) == (6000, 3000, 9000, 5, 4)


# -- rebalances -----------------------------------------------------------------------------------


@story
def endings() -> Scribe:
    """Rebalances that end in every way."""
    scribe = Scribe("endings")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, []), "b": (100, [])})
    scribe.joined(1150, "c")
    scribe.started(1150, "member_joined", ["a", "b"], from_state="CompletingRebalance")
    scribe.begin_file()
    scribe.recovered(2000, "CompletingRebalance", a=[0], b=[])
    scribe.recovered(3000, "Stable", a=[0], b=[])
    scribe.gone(4000, "b")
    scribe.started(4000, "member_left", ["a"])
    scribe.gone(4500, "a")
    scribe.emptied(4500)
    scribe.joined(6000, "d")
    scribe.started(6000, "member_joined", from_state="Empty")
    return scribe


def test_rebalances_end_in_every_way(told: Told) -> None:
    """One that goes on when a group is read back goes on; one that doesn't is interrupted."""
    columns = ("outcome", "started_ms", "joined_ms", "ended_ms", "generation", "members")
    assert told.rows("rebalances", "endings", *columns) == [
        ("completed", 0, 0, 0, 1, 2),
        ("superseded", 1000, 1100, 1150, 2, 2),
        ("interrupted", 1150, None, 3000, 2, None),
        ("emptied", 4000, None, 4500, 3, None),
        ("running", 6000, None, None, 3, None),
    ]


def test_only_what_was_completed_or_given_up_has_a_cost(told: Told) -> None:
    """The time in which a node was down is no rebalance's fault."""
    columns = ("stopped_partition_ms", "prepare_ms", "complete_ms", "total_ms")
    assert told.rows("rebalances", "endings", *columns) == [
        (0, 0, 0, 0),
        (50, 100, None, 150),
        (None, None, None, 1850),
        (0, None, None, 500),
        (None, None, None, None),
    ]


def test_who_came_and_went_is_told_with_the_generation(told: Told) -> None:
    """Of those that led to none, the next one tells; an empty group is a generation, too."""
    assert told.rows("rebalances", "endings", "came", "went") == [
        (["a", "b"], []),
        ([], []),
        ([], []),
        (["c"], ["b", "a"]),
        ([], []),
    ]


@story
def waiting() -> Scribe:
    """A rebalance that waits for members in all ways."""
    scribe = Scribe("waiting", instances={"s1": "s"})
    scribe.founded(0, a=[0], b=[], c=[], s1=[])
    scribe.started(1000, "admin", ["a", "b", "c", "s1"])
    scribe.replaced(1200, "s1", "s2")
    scribe.replaced(1300, "s2", "s3")
    scribe.unclaimed(1400, "nobody")
    scribe.gone(2000, "b", "rebalance_expired", silent_ms=900)
    scribe.phase(2100, 1100, {"a": (0, []), "c": (400, []), "s3": (500, [])}, ["b"])
    scribe.unclaimed(2105, "later")
    scribe.completed(2110, {"a": [0], "c": [], "s3": []})
    return scribe


def test_those_who_were_late_are_told_the_slowest_first(told: Told) -> None:
    """Whoever joined at once is not; a static member is who it is by now."""
    (late,) = told.row("rebalances", "waiting", "late", rebalance=2)
    assert [
        tuple(each[name] for name in ("member", "host", "after_ms", "how")) for each in late
    ] == [
        ("b", "/b", 1000, "rebalance_expired"),
        ("s3", "/s3", 500, "joined"),
        ("c", "/c", 400, "joined"),
        ("nobody", "", 400, "unclaimed"),
    ]


def test_those_who_were_dropped_are_told(told: Told) -> None:
    """They had died by themselves or not: only a session that ended is a death."""
    columns = ("dropped", "went", "came", "detection_ms", "awaited")
    row = told.row("rebalances", "waiting", *columns, rebalance=2)
    assert row == (["b"], ["b"], [], None, ["a", "b", "c", "s1"])


# -- members --------------------------------------------------------------------------------------


@story
def flapping() -> Scribe:
    """One process comes and goes, every ten minutes, and once an hour later."""
    scribe = Scribe("flapping", instances={f"f{n}": "f" for n in range(6)})
    for number, minutes in enumerate((0, 10, 20, 30, 100)):
        at = minutes * 60_000
        scribe.joined(at, f"f{number}", "f")
        scribe.gone(at + 60_000, f"f{number}", "session_expired", silent_ms=10_000)
    return scribe


def test_a_process_that_keeps_coming_back_flaps(told: Told) -> None:
    """From its third return within an hour on."""
    columns = ("member", "returns", "is_flapping", "back_after_ms", "identity")
    assert told.rows("member_sessions", "flapping", *columns) == [
        ("f0", 0, False, 540_000, "f"),
        ("f1", 1, False, 540_000, "f"),
        ("f2", 2, False, 540_000, "f"),
        ("f3", 3, True, 69 * 60_000, "f"),
        ("f4", 0, False, None, "f"),
    ]


@story
def turned_away() -> Scribe:
    """A member is turned away in the moment in which it comes."""
    scribe = Scribe("turned-away")
    scribe.joined(0, "a")
    scribe.gone(0, "a", "turned_away")
    return scribe


def test_a_member_that_is_turned_away_has_not_come_back(told: Told) -> None:
    """It came and went in one moment, once."""
    columns = ("joined_ms", "ended_ms", "ended", "back_after_ms", "returns", "kind")
    assert told.row("member_sessions", "turned-away", *columns) == (
        *(0, 0, "turned_away", None, 0, "dynamic"),
    )


def test_a_member_is_known_by_what_it_said_as_it_came(told: Told) -> None:
    """What it is called, what it can do and why it came."""
    columns = ("client_id", "session_timeout_ms", "rebalance_timeout_ms", "protocols", "topics")
    row = told.row("member_sessions", "turned-away", *columns, "join_reason", "leave_reason")
    assert row == ("c", 10_000, 60_000, ["range"], ["turned-away"], "it is new", "")


# -- commits --------------------------------------------------------------------------------------


@story
def commits() -> Scribe:
    """Two members and a tool commit, back and forth and over an hour's end."""
    scribe = Scribe("commits", generation=1)
    scribe.committed(_HOUR_MS - 120_000, "a", p0=10, p1=5)
    scribe.committed(_HOUR_MS - 60_000, "a", p0=30)
    scribe.committed(_HOUR_MS - 1, "b", p0=20)
    scribe.committed(_HOUR_MS, "b", p0=18)
    scribe.committed(_HOUR_MS + 30_000, "", p0=40)
    return scribe


def test_commits_are_counted_by_hour(told: Told) -> None:
    """An hour begins with its first millisecond."""
    columns = ("partition", "hour_ms", "commits", "first_ms", "last_ms")
    assert told.rows("commits", "commits", *columns) == [
        (0, 0, 3, _HOUR_MS - 120_000, _HOUR_MS - 1),
        (0, _HOUR_MS, 2, _HOUR_MS, _HOUR_MS + 30_000),
        (1, 0, 1, _HOUR_MS - 120_000, _HOUR_MS - 120_000),
    ]


def test_offsets_that_go_back_are_noticed(told: Told) -> None:
    """Over the hour's end, too; steps up and steps down are told apart."""
    columns = ("first_offset", "last_offset", "advanced", "regressions", "deepest_regression")
    assert told.rows("commits", "commits", *columns, partition=0) == [
        (10, 20, 20, 1, 10),
        (18, 40, 22, 1, 2),
    ]


def test_who_commits_is_counted(told: Told) -> None:
    """Whoever is no member is outside."""
    rows = told.rows("commits", "commits", "members", "outside", "end_offset", "lag")
    assert rows == [(2, 0, None, None), (1, 1, None, None), (1, 0, None, None)]


def test_a_rate_takes_two_commits(told: Told) -> None:
    """Two within half a minute are two a minute: one every half."""
    (before, after, only) = told.rows("commits", "commits", "per_minute")
    assert before[0] == pytest.approx(2 * 60_000 / 119_999)
    assert (after, only) == ((2.0,), (None,))


def test_an_hour_of_commits_alone_is_an_hour(told: Told) -> None:
    """Nothing is known of members, and nothing stood still."""
    columns = ("hour_ms", "members", "commits", "regressions", "availability", "stickiness")
    assert told.rows("group_health", "commits", *columns) == [
        (0, 0, 4, 1, None, None),
        (_HOUR_MS, 0, 2, 1, None, None),
    ]


# -- hours ----------------------------------------------------------------------------------------


@story
def hours() -> Scribe:
    """A partition is owned over an hour's end, then by nobody over the next one's."""
    scribe = Scribe("hours")
    scribe.founded(_HOUR_MS - 1000, a=[0])
    scribe.started(2 * _HOUR_MS - 500, "admin", ["a"])
    scribe.phase(2 * _HOUR_MS - 400, 100, {"a": (100, [])})
    scribe.completed(2 * _HOUR_MS + 600, {"a": [0]})
    scribe.node_stopped(2 * _HOUR_MS + 600)
    return scribe


def test_time_is_shared_out_among_hours(told: Told) -> None:
    """Each has what falls into it; a rebalance counts where it began."""
    columns = ("hour_ms", "owned_partition_ms", "stopped_partition_ms", "rebalancing_ms")
    assert told.rows("group_health", "hours", *columns, "rebalances", "members") == [
        (0, 1000, 0, 0, 1, 1),
        (_HOUR_MS, _HOUR_MS - 400, 400, 500, 1, 1),
        (2 * _HOUR_MS, 0, 600, 600, 0, 1),
    ]


def test_availability_is_the_share_of_time_with_an_owner(told: Told) -> None:
    """Of the time that is known of."""
    rows = told.rows("group_health", "hours", "availability", "stickiness", "by_cause")
    assert rows == [
        (1.0, None, {"member_joined": 1}),
        (pytest.approx((_HOUR_MS - 400) / _HOUR_MS), 1.0, {"admin": 1}),
        (0.0, None, {}),
    ]
