"""Who owned what, twice or not at all: stories of a few lines with answers known beforehand.

All stories are one journal, so that Spark reads it once; each is about a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.oracle.tables import oracle_tables
from tests.support.pipeline_tables import Told, spark_tables
from tests.support.scribe import AWAY, Scribe

_TABLES = ("rebalances", "ownership", "ownership_faults", "member_sessions", "group_health")
_STORIES: list[Callable[[], Scribe]] = []


def story(tell: Callable[[], Scribe]) -> Callable[[], Scribe]:
    """Have a story told in the journal of this module."""
    _STORIES.append(tell)
    return tell


@pytest.fixture(scope="module")
def makers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """The tables of all stories, of Spark and of the oracle."""
    folder = tmp_path_factory.mktemp("stories")
    paths = [path for tell in _STORIES for path in tell().write(folder)]
    return {
        "spark": Told(spark_tables(spark, paths, _TABLES)),
        "oracle": Told(oracle_tables(folder)),
    }


@pytest.fixture(params=["spark", "oracle"])
def told(request: pytest.FixtureRequest, makers: dict[str, Told]) -> Told:
    """The tables, of one of both."""
    return makers[request.param]


_INTERVAL = ("partition", "holder", "from_ms", "to_ms", "began", "ended")
_FAULT = ("fault", "partition", "from_ms", "to_ms", "sure_ms", "most_ms", "cause")


# -- two owners -----------------------------------------------------------------------------------


@story
def assigned_twice() -> Scribe:
    """The leader gives a partition to two members."""
    scribe = Scribe("assigned-twice")
    scribe.founded(10, a=[0, 1], b=[1])
    scribe.gone(1000, "b")
    scribe.started(1000, "member_left", ["a"])
    scribe.phase(1050, 50, {"a": (50, [0, 1])})
    scribe.completed(1060, {"a": [0, 1]})
    return scribe


def test_a_partition_that_is_given_to_two_has_two_owners(told: Told) -> None:
    """Both own it for certain, until one is gone."""
    row = told.row("ownership_faults", "assigned-twice", *_FAULT, "holder", "next_holder")
    assert row == ("overlap", 1, 10, 1000, 990, 990, "assigned_twice", "a", "b")


def test_time_with_two_owners_counts_once(told: Told) -> None:
    """The hour has no more time than there is: two partitions, from 10 to 1060."""
    row = told.row("group_health", "assigned-twice", "owned_partition_ms", "overlaps")
    assert row == (2 * 1050, 1)


@story
def three_owners() -> Scribe:
    """The leader gives a partition to three members."""
    scribe = Scribe("three-owners")
    scribe.founded(0, a=[0], b=[0], c=[0])
    scribe.joined(1000, "d")
    return scribe


def test_time_with_three_owners_counts_once(told: Told) -> None:
    """Of three owners each two overlap, which is three overlaps."""
    row = told.row("group_health", "three-owners", "owned_partition_ms", "overlaps")
    assert row == (1000, 3)


@story
def taken_while_held() -> Scribe:
    """A cooperative leader gives a partition away at once, while its owner still works on it."""
    scribe = Scribe("taken-while-held")
    scribe.founded(0, a=[0, 1])
    scribe.joined(2000, "b")
    scribe.started(2000, "member_joined", ["a"])
    scribe.phase(2100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    scribe.completed(2110, {"a": [0], "b": [1]}, needs_rejoin=True)
    scribe.started(2200, "revocation_follow_up", ["a", "b"], follows=2)
    scribe.phase(2300, 100, {"a": (40, [0]), "b": (100, [1])})
    scribe.completed(2310, {"a": [0], "b": [1]})
    return scribe


def test_a_partition_that_is_taken_while_it_is_held_may_have_two_owners(told: Told) -> None:
    """Until the former owner joins without it, which it does 40 ms into the next rebalance."""
    row = told.row("ownership_faults", "taken-while-held", *_FAULT, "began")
    assert row == ("overlap", 1, 2110, 2240, 0, 130, "taken_while_held", "taken")


def test_a_partition_is_released_when_its_former_owner_says_so(told: Told) -> None:
    """The interval ends with the assignment, and the work some time later."""
    columns = (*_INTERVAL, "released_ms", "generation", "last_generation")
    rows = told.rows("ownership", "taken-while-held", *columns, partition=1)
    assert rows == [
        (1, "a", 0, 2110, "assigned", "taken", 2240, 1, 1),
        (1, "b", 2110, 2310, "assigned", "open", 2310, 2, 3),
    ]


@story
def held_on() -> Scribe:
    """An owner says again and again that it has what was given to another one."""
    scribe = Scribe("held-on")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, [0]), "b": (100, [])})
    scribe.completed(1110, {"a": [], "b": [0]}, needs_rejoin=True)
    scribe.started(2000, "revocation_follow_up", ["a", "b"], follows=2)
    scribe.phase(2100, 100, {"a": (50, [0]), "b": (100, [0])})
    scribe.completed(2110, {"a": [], "b": [0]}, needs_rejoin=True)
    scribe.started(3000, "revocation_follow_up", ["a", "b"], follows=3)
    scribe.phase(3100, 100, {"a": (50, []), "b": (100, [0])})
    scribe.completed(3110, {"a": [], "b": [0]})
    return scribe


def test_an_owner_that_holds_on_never_let_go(told: Told) -> None:
    """Its interval is one, and both own the partition for certain meanwhile."""
    assert told.rows("ownership", "held-on", *_INTERVAL, "released_ms") == [
        (0, "a", 0, 2110, "assigned", "taken", 3050),
        (0, "b", 1110, 3110, "assigned", "open", 3110),
    ]
    row = told.row("ownership_faults", "held-on", *_FAULT)
    assert row == ("overlap", 0, 1110, 3050, 1000, 1940, "taken_while_held")


@story
def removed_alive() -> Scribe:
    """An administrator removes a static member that had been heard of 200 ms ago."""
    scribe = Scribe("removed-alive", instances={"a": "i"})
    scribe.founded(0, a=[0], b=[])
    scribe.gone(1000, "a", "removed", silent_ms=200)
    scribe.started(1000, "member_removed", ["b"])
    scribe.phase(1100, 100, {"b": (100, [])})
    scribe.completed(1110, {"b": [0]})
    scribe.joined(20_000, "z")
    return scribe


def test_a_member_that_is_removed_alive_may_work_until_its_session_ends(told: Told) -> None:
    """It was heard of at 800, so it may go on until 10800."""
    row = told.row("ownership_faults", "removed-alive", *_FAULT, "holder", fault="overlap")
    assert row == ("overlap", 0, 1110, 10_800, 0, 9690, "removed", "i")


def test_nobody_owns_what_a_member_had_that_was_removed(told: Told) -> None:
    """From its end until the next assignment."""
    row = told.row("ownership_faults", "removed-alive", *_FAULT, "rebalance", fault="gap")
    assert row == ("gap", 0, 1000, 1110, 110, 110, "member_removed", 2)


@story
def claimed() -> Scribe:
    """A member says as it joins that it owns what nobody gave it, and what another one owns."""
    scribe = Scribe("claimed")
    scribe.founded(0, a=[0], b=[])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, [0]), "b": (30, [0, 1])})
    scribe.completed(1110, {"a": [0], "b": [1]})
    return scribe


def test_what_a_member_claims_it_owns(told: Told) -> None:
    """From its join on; and what it claims of another one's both own for certain."""
    assert told.rows("ownership", "claimed", *_INTERVAL, holder="b") == [
        (0, "b", 1030, 1110, "claimed", "taken"),
        (1, "b", 1030, 1110, "claimed", "open"),
    ]
    row = told.row("ownership_faults", "claimed", *_FAULT)
    assert row == ("overlap", 0, 1030, 1110, 80, 80, "claimed_twice")


# -- static members -------------------------------------------------------------------------------


@story
def replaced() -> Scribe:
    """A static member comes back twice, and its first process learns late that it is out."""
    scribe = Scribe("replaced", instances={"a1": "i"})
    scribe.founded(0, a1=[0])
    scribe.replaced(1000, "a1", "a2")
    scribe.fenced(1300, "a1", "a2")
    scribe.fenced(1400, "a1", "a2")
    scribe.replaced(2000, "a2", "a3")
    scribe.started(3000, "admin", ["a3"])
    scribe.phase(3100, 100, {"a3": (100, [0])})
    scribe.completed(3110, {"a3": [0]})
    return scribe


def test_a_static_member_that_comes_back_takes_over(told: Told) -> None:
    """Its holder stays, the member id changes, and nobody else owns anything meanwhile."""
    columns = ("holder", "member", "host", "from_ms", "to_ms", "began", "ended", "last_generation")
    assert told.rows("ownership", "replaced", *columns) == [
        ("i", "a1", "/a1", 0, 1000, "assigned", "replaced", 1),
        ("i", "a2", "/a2", 1000, 2000, "replaced", "replaced", 1),
        ("i", "a3", "/a3", 2000, 3110, "replaced", "open", 2),
    ]
    assert told.rows("ownership_faults", "replaced", *_FAULT) == []


def test_a_former_self_may_work_until_it_is_refused(told: Told) -> None:
    """The last refusal counts; who is never refused is taken to be gone."""
    rows = told.rows("ownership", "replaced", "member", "released_ms")
    assert rows == [("a1", 1400), ("a2", 2000), ("a3", 3110)]


def test_sessions_of_a_static_member_follow_upon_each_other(told: Told) -> None:
    """What it said of itself once goes with its name."""
    columns = ("member", "instance", "kind", "joined_ms", "ended_ms", "began", "ended")
    assert told.rows("member_sessions", "replaced", *columns, "client_id") == [
        ("a1", "i", "static", 0, 1000, "joined", "replaced", "c"),
        ("a2", "i", "static", 1000, 2000, "replaced", "replaced", "c"),
        ("a3", "i", "static", 2000, None, "replaced", "open", "c"),
    ]


@story
def away() -> Scribe:
    """A static member does not come to a rebalance and keeps what it has."""
    scribe = Scribe("away", instances={"a": "i"})
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1500, 500, {"a": AWAY, "b": (20, [])})
    scribe.completed(1510, {"a": [0], "b": [1]})
    return scribe


def test_a_static_member_that_is_away_lets_go_of_nothing(told: Told) -> None:
    """It goes on owning, and all others wait for it."""
    assert told.rows("ownership", "away", *_INTERVAL, holder="i") == [
        (0, "i", 0, 1510, "assigned", "open")
    ]
    (late,) = told.row("rebalances", "away", "late", rebalance=2)
    assert [(each["member"], each["after_ms"], each["how"]) for each in late] == [
        ("a", 500, "away"),
        ("b", 20, "joined"),
    ]


# -- none -----------------------------------------------------------------------------------------


@story
def eager() -> Scribe:
    """Two members of an eager assignor rebalance."""
    scribe = Scribe("eager")
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.phase(1100, 100, {"a": (100, []), "b": (20, [])})
    scribe.completed(1120, {"a": [0], "b": [1]})
    return scribe


def test_eager_members_stand_still_from_their_joins_on(told: Told) -> None:
    """Each until the assignment is in place: 20 ms and 100 ms."""
    assert told.rows("ownership_faults", "eager", *_FAULT, "began", "next_holder") == [
        ("gap", 0, 1100, 1120, 20, 20, "admin", "let_go", "a"),
        ("gap", 1, 1020, 1120, 100, 100, "admin", "let_go", "b"),
    ]
    assert told.rows("rebalances", "eager", "stopped_partition_ms") == [(0,), (120,)]


@story
def dead() -> Scribe:
    """A member dies, and the other one gets its partition."""
    scribe = Scribe("dead")
    scribe.founded(0, a=[0], b=[1])
    scribe.gone(12_000, "a", "session_expired", silent_ms=10_100)
    scribe.started(12_000, "session_expired", ["b"])
    scribe.phase(12_400, 400, {"b": (400, [1])})
    scribe.completed(12_500, {"b": [0, 1]})
    return scribe


def test_what_a_dead_member_had_stands_still_from_when_it_is_given_up(told: Told) -> None:
    """It stopped before that, but nobody can tell when."""
    row = told.row("ownership_faults", "dead", *_FAULT, "began", "rebalance", "is_open")
    assert row == (
        *("gap", 0, 12_000, 12_500, 500, 500),
        *("session_expired", "session_expired", 2, False),
    )
    assert told.row("ownership", "dead", "released_ms", holder="a") == (12_000,)
    columns = ("went", "detection_ms", "kept", "keepable", "partitions", "stopped_partition_ms")
    assert told.row("rebalances", "dead", *columns, rebalance=2) == (["a"], 10_100, 1, 1, 2, 500)


@story
def unended() -> Scribe:
    """The journal ends in a rebalance."""
    scribe = Scribe("unended")
    scribe.founded(0, a=[0], b=[1])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left", ["b"])
    scribe.joined(3000, "c")
    return scribe


def test_a_gap_that_goes_on_ends_with_the_journal(told: Told) -> None:
    """And so does the rebalance, for what can be told."""
    row = told.row("ownership_faults", "unended", *_FAULT, "is_open", "rebalance", "next_holder")
    assert row == ("gap", 0, 1000, 3000, 2000, 2000, "member_left", True, 2, None)
    columns = ("outcome", "ended_ms", "total_ms", "stopped_partition_ms", "generation")
    assert told.row("rebalances", "unended", *columns, rebalance=2) == (
        *("running", None, None, None, 1),
    )


def test_the_time_of_a_rebalance_that_goes_on_counts(told: Told) -> None:
    """Whoever looks at a group that is stuck wants to see it."""
    assert told.row("group_health", "unended", "rebalancing_ms") == (2000,)


@story
def nobodys() -> Scribe:
    """What was let go of is given to nobody, and that is how it is meant."""
    scribe = Scribe("nobodys")
    scribe.founded(0, a=[0, 1])
    scribe.started(1000, "subscription_changed", ["a"])
    scribe.phase(1100, 100, {"a": (60, [])})
    scribe.completed(1110, {"a": [0]})
    scribe.started(5000, "subscription_changed", ["a"])
    scribe.phase(5100, 100, {"a": (60, [])})
    scribe.completed(5110, {"a": [0, 1]})
    return scribe


def test_what_nobody_is_to_have_does_not_stand_still(told: Told) -> None:
    """Its gap ends with the assignment that leaves it out for good."""
    assert told.rows("ownership_faults", "nobodys", *_FAULT, "next_holder", partition=1) == [
        ("gap", 1, 1060, 1110, 50, 50, "subscription_changed", None)
    ]


@story
def two_steps() -> Scribe:
    """A cooperative assignor takes a partition, and gives it away in a second rebalance."""
    scribe = Scribe("two-steps")
    scribe.founded(0, a=[0, 1])
    scribe.joined(1000, "b")
    scribe.started(1000, "member_joined", ["a"])
    scribe.phase(1100, 100, {"a": (100, [0, 1]), "b": (0, [])})
    scribe.completed(1110, {"a": [0], "b": []}, needs_rejoin=True)
    scribe.started(1200, "revocation_follow_up", ["a", "b"], follows=2)
    scribe.phase(1300, 100, {"a": (50, [0]), "b": (100, [])})
    scribe.completed(1310, {"a": [0], "b": [1]})
    return scribe


def test_a_partition_stands_still_between_the_two_steps(told: Told) -> None:
    """From when it is taken until it is given; the second rebalance pays."""
    row = told.row("ownership_faults", "two-steps", *_FAULT, "rebalance", "began")
    assert row == ("gap", 1, 1110, 1310, 200, 200, "revocation_follow_up", 3, "taken")
    rows = told.rows("rebalances", "two-steps", "stopped_partition_ms", "kept", "keepable")
    assert rows == [(0, None, None), (0, 1, 1), (200, 1, 1)]


def test_a_follow_up_belongs_to_what_called_for_it(told: Told) -> None:
    """Its chain begins with the rebalance that somebody's coming caused."""
    columns = ("follows", "root", "root_cause", "cause_chain")
    assert told.rows("rebalances", "two-steps", *columns) == [
        (None, 1, "member_joined", ["member_joined"]),
        (None, 2, "member_joined", ["member_joined"]),
        (2, 2, "member_joined", ["member_joined", "revocation_follow_up"]),
    ]


@story
def topic_deleted() -> Scribe:
    """A topic is deleted while nobody owns its partitions."""
    scribe = Scribe("topic-deleted")
    scribe.topic_changed(0, "created", 0, 2)
    scribe.founded(0, a=[0, 1])
    scribe.started(1000, "admin", ["a"])
    scribe.topic_changed(1080, "deleted", 2, 0)
    scribe.phase(1100, 100, {"a": (60, [])})
    scribe.completed(1110, {"a": []})
    return scribe


def test_what_is_deleted_does_not_stand_still(told: Told) -> None:
    """Gaps end with the topic."""
    rows = told.rows("ownership_faults", "topic-deleted", *_FAULT, "next_holder", "is_open")
    assert rows == [("gap", number, 1060, 1080, 20, 20, "admin", None, False) for number in (0, 1)]


@story
def topic_deleted_first() -> Scribe:
    """A topic is deleted, and then the group lets go of it."""
    scribe = Scribe("topic-deleted-first")
    scribe.founded(0, a=[0, 1])
    scribe.topic_changed(1000, "deleted", 2, 0)
    scribe.started(1000, "topic_changed", ["a"])
    scribe.phase(1100, 100, {"a": (60, [])})
    scribe.completed(1110, {"a": []})
    return scribe


def test_what_was_deleted_before_does_not_stand_still(told: Told) -> None:
    """There is nothing to work on."""
    assert told.rows("ownership_faults", "topic-deleted-first", *_FAULT) == []


@story
def topic_made_anew() -> Scribe:
    """A topic is deleted and made anew, and the group takes its time."""
    scribe = Scribe("topic-made-anew")
    scribe.founded(0, a=[0, 1])
    scribe.topic_changed(1000, "deleted", 2, 0)
    scribe.topic_changed(1010, "created", 0, 1)
    scribe.started(1010, "topic_changed", ["a"])
    scribe.phase(9000, 7990, {"a": (10, [])})
    scribe.completed(9010, {"a": [0]})
    return scribe


def test_what_was_made_anew_is_missed_once_somebody_had_it(told: Told) -> None:
    """As is any new partition."""
    assert told.rows("ownership_faults", "topic-made-anew", *_FAULT) == []


@story
def topic_made_anew_and_kept() -> Scribe:
    """A topic is made anew, its owner goes on with it, and later lets go of it."""
    scribe = Scribe("topic-made-anew-and-kept")
    scribe.founded(0, a=[0])
    scribe.topic_changed(1000, "deleted", 1, 0)
    scribe.topic_changed(1010, "created", 0, 1)
    scribe.started(1010, "topic_changed", ["a"])
    scribe.phase(1100, 90, {"a": (90, [0])})
    scribe.completed(1110, {"a": [0]})
    scribe.started(5000, "admin", ["a"])
    scribe.phase(5100, 100, {"a": (50, [])})
    scribe.completed(5110, {"a": [0]})
    return scribe


def test_what_was_deleted_before_it_was_given_stands_still(told: Told) -> None:
    """The owner has the new partition by then, whatever it had before."""
    assert told.rows("ownership_faults", "topic-made-anew-and-kept", *_FAULT) == [
        ("gap", 0, 5050, 5110, 60, 60, "admin")
    ]


# -- nodes and time -------------------------------------------------------------------------------


@story
def restarted() -> Scribe:
    """The node restarts; of two members only one is read back with what it had."""
    scribe = Scribe("restarted")
    scribe.node_started(0)
    scribe.founded(0, a=[0], b=[1])
    scribe.begin_file()
    scribe.recovered(5000, a=[0], b=[])
    scribe.node_started(5000)
    scribe.joined(6000, "c")
    return scribe


def test_owners_go_on_over_a_restart(told: Told) -> None:
    """What was not read back is lost, and whose fault that is nobody can tell."""
    assert told.rows("ownership", "restarted", *_INTERVAL) == [
        (0, "a", 0, 6000, "assigned", "open"),
        (1, "b", 0, 5000, "assigned", "lost"),
    ]
    assert told.rows("ownership_faults", "restarted", *_FAULT) == []


@story
def lost_generations() -> Scribe:
    """A killed node had not written down its last generations."""
    scribe = Scribe("lost-generations")
    scribe.founded(0, a=[0], b=[1])
    scribe.begin_file()
    scribe.recovered(5000, generation=7, b=[0], c=[1])
    scribe.node_started(5000)
    scribe.gone(6000, "c")
    scribe.started(6000, "member_left", ["b"])
    return scribe


def test_what_happened_in_lost_generations_shows_as_a_node_comes_back(told: Told) -> None:
    """From then on others have it; who is not there any more is lost."""
    assert told.rows("ownership", "lost-generations", *_INTERVAL, "generation") == [
        (0, "a", 0, 5000, "assigned", "lost", 1),
        (0, "b", 5000, 6000, "recovered", "open", 7),
        (1, "b", 0, 5000, "assigned", "lost", 1),
        (1, "c", 5000, 6000, "recovered", "left", 7),
    ]
    columns = ("member", "joined_ms", "ended_ms", "began", "ended")
    assert told.rows("member_sessions", "lost-generations", *columns) == [
        ("a", 0, 5000, "joined", "lost"),
        ("b", 0, None, "joined", "open"),
        ("c", None, 6000, "known", "left"),
    ]


@story
def restarted_in_a_phase() -> Scribe:
    """The node restarts while members are awaited, and waits for them anew."""
    scribe = Scribe("restarted-in-a-phase")
    scribe.founded(0, a=[0], b=[1])
    scribe.started(1000, "admin", ["a", "b"])
    scribe.begin_file()
    scribe.recovered(5000, "PreparingRebalance", a=[0], b=[1])
    scribe.node_started(5000)
    scribe.phase(5300, 300, {"a": (300, []), "b": (100, [])})
    scribe.completed(5310, {"a": [0], "b": [1]})
    return scribe


def test_joins_count_from_when_the_node_came_back(told: Told) -> None:
    """Nobody let go before: the members had gone on, and joined after the restart."""
    assert told.rows("ownership_faults", "restarted-in-a-phase", *_FAULT) == [
        ("gap", 0, 5300, 5310, 10, 10, "admin"),
        ("gap", 1, 5100, 5310, 210, 210, "admin"),
    ]
    columns = ("started_ms", "joined_ms", "ended_ms", "outcome", "stopped_partition_ms")
    row = told.row("rebalances", "restarted-in-a-phase", *columns, rebalance=2)
    assert row == (1000, 5300, 5310, "completed", 220)


@story
def set_back() -> Scribe:
    """The node's clock is set back by a minute in the midst of it."""
    scribe = Scribe("set-back")
    scribe.founded(60_000, a=[0], b=[1])
    scribe.started(500, "admin", ["a", "b"])
    scribe.phase(530, 30, {"a": (30, [0]), "b": (30, [])})
    scribe.completed(540, {"a": [0], "b": [1]})
    scribe.gone(70_000, "b")
    scribe.started(70_000, "member_left", ["a"])
    scribe.phase(70_100, 100, {"a": (100, [0])})
    scribe.completed(70_110, {"a": [0, 1]})
    return scribe


def test_time_stands_still_until_a_clock_that_was_set_back_has_caught_up(told: Told) -> None:
    """Nothing ends before it begins, and nobody overlaps with anybody."""
    assert told.rows("ownership", "set-back", *_INTERVAL, partition=0) == [
        (0, "a", 60_000, 70_110, "assigned", "open")
    ]
    assert told.rows("ownership_faults", "set-back", *_FAULT) == [
        ("gap", 1, 70_000, 70_110, 110, 110, "member_left")
    ]


@story
def ties() -> Scribe:
    """Everything happens within one millisecond."""
    scribe = Scribe("ties")
    scribe.founded(0, b=[0], a=[1])
    scribe.gone(0, "b")
    scribe.started(0, "member_left", ["a"])
    scribe.phase(0, 0, {"a": (0, [1])})
    scribe.completed(0, {"a": [0, 1]})
    return scribe


def test_lines_of_one_moment_have_an_order(told: Told) -> None:
    """The numbers of the lines decide, and there is no time for anything to go wrong."""
    assert told.rows("ownership", "ties", *_INTERVAL) == [
        (0, "a", 0, 0, "assigned", "open"),
        (0, "b", 0, 0, "assigned", "left"),
        (1, "a", 0, 0, "assigned", "open"),
    ]
    assert told.rows("ownership_faults", "ties", *_FAULT) == []


@story
def restarted_and_superseded() -> Scribe:
    """The node restarts in a second phase, and a rebalance begins in the same millisecond."""
    scribe = Scribe("restarted-and-superseded")
    scribe.founded(0, a=[0], b=[])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left", ["b"])
    scribe.phase(1100, 100, {"b": (100, [])})
    scribe.begin_file()
    scribe.recovered(2000, "CompletingRebalance", b=[])
    scribe.started(2000, "topic_changed", ["b"], from_state="CompletingRebalance")
    scribe.phase(2100, 100, {"b": (100, [])})
    scribe.completed(2110, {"b": [0]})
    return scribe


def test_time_before_a_restart_is_nobodys_fault(told: Told) -> None:
    """It is a gap all the same."""
    rows = told.rows("rebalances", "restarted-and-superseded", "outcome", "stopped_partition_ms")
    assert rows == [("completed", 0), ("superseded", 0), ("completed", 0)]
    row = told.row("ownership_faults", "restarted-and-superseded", *_FAULT)
    assert row == ("gap", 0, 1000, 2000, 1000, 1000, "member_left")


# -- what can't be known --------------------------------------------------------------------------


@story
def unreadable() -> Scribe:
    """One assignment can't be read, as after a change to a type of group nobody knows."""
    scribe = Scribe("unreadable")
    scribe.founded(0, a=[0])
    scribe.started(1000, "admin", ["a"])
    scribe.phase(1100, 100, {"a": (100, [0])})
    scribe.completed(1110, None)
    scribe.started(2000, "admin", ["a"])
    scribe.phase(2100, 100, {"a": (100, [])})
    scribe.completed(2110, {"a": [0]})
    scribe.started(3000, "admin", ["a"])
    scribe.phase(3100, 100, {"a": (60, [])})
    scribe.completed(3110, {"a": [0]})
    return scribe


def test_an_assignment_that_cannot_be_read_ends_all_knowledge(told: Told) -> None:
    """Until one can be read again."""
    assert told.rows("ownership", "unreadable", *_INTERVAL) == [
        (0, "a", 0, 1110, "assigned", "lost"),
        (0, "a", 2110, 3060, "assigned", "let_go"),
        (0, "a", 3110, 3110, "assigned", "open"),
    ]


def test_what_cannot_be_known_costs_nobody_knows_how_much(told: Told) -> None:
    """The cost of the rebalance that follows upon it is unknown, not zero."""
    columns = ("partitions", "kept", "keepable", "stopped_partition_ms")
    assert told.rows("rebalances", "unreadable", *columns) == [
        (1, None, None, 0),
        (None, None, None, 0),
        (1, None, None, None),
        (1, 1, 1, 50),
    ]


@story
def deleted() -> Scribe:
    """A group is emptied and deleted, and comes again."""
    scribe = Scribe("deleted")
    scribe.founded(0, a=[0])
    scribe.gone(1000, "a")
    scribe.started(1000, "member_left")
    scribe.emptied(1000)
    scribe.deleted(2000)
    scribe.founded(9000, b=[0])
    return scribe


def test_a_group_that_is_deleted_has_no_gap(told: Told) -> None:
    """Nobody is there who could own anything; its rebalances are numbered on."""
    assert told.rows("ownership_faults", "deleted", *_FAULT) == []
    assert told.rows("ownership", "deleted", *_INTERVAL) == [
        (0, "a", 0, 1000, "assigned", "left"),
        (0, "b", 9000, 9000, "assigned", "open"),
    ]
    columns = ("rebalance", "outcome", "generation", "came", "went", "kept")
    assert told.rows("rebalances", "deleted", *columns) == [
        (1, "completed", 1, ["a"], [], None),
        (2, "emptied", 2, [], ["a"], None),
        (3, "completed", 3, ["b"], [], None),
    ]
