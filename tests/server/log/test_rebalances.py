"""How log lines look, and what they say of groups."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from coterie_protocol.journal import (
    CAUSES,
    ClockStepped,
    Event,
    GroupDeleted,
    GroupRecovered,
    IdUnclaimed,
    MemberGone,
    MemberJoined,
    NodePaused,
    NodeStarted,
    NodeStopped,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OwnershipConflict,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
)
from coterie_server.history import History
from coterie_server.log import RebalanceLog, configure
from coterie_server.log.rebalances import LINES_PER_WINDOW, WINDOW_MS
from tests.support.group_harness import assigned
from tests.support.watched_world import Observe, WatchedWorld

SECOND_MS = 1_000

LogLines = list[MutableMapping[str, Any]]


# -- how lines look ----------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream with somebody in front of it."""

    def isatty(self) -> bool:
        """Tell that it is a terminal."""
        return True


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Put back what `configure` changes."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def logger() -> structlog.stdlib.BoundLogger:
    """A logger as modules have it."""
    made: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("coterie.test")
    return made


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """What was written, line by line."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_line_has_time_level_words_and_fields() -> None:
    """A JSON line is one object that begins with when, how bad and what."""
    stream = io.StringIO()
    configure("info", "json", stream)
    logger().warning("disk is slow", seconds=3)
    (line,) = json_lines(stream)
    assert list(line) == ["timestamp", "level", "event", "logger", "seconds"]
    assert (line["level"], line["event"], line["logger"]) == (
        "warning",
        "disk is slow",
        "coterie.test",
    )


def test_times_are_utc() -> None:
    """Times are in ISO 8601 and in UTC, wherever the node runs."""
    stream = io.StringIO()
    configure("info", "json", stream)
    logger().info("now")
    written = json_lines(stream)[0]["timestamp"]
    assert written.endswith("Z")
    assert abs(datetime.now(UTC) - datetime.fromisoformat(written)) < timedelta(minutes=1)


def test_terminal_gets_lines_for_people() -> None:
    """On a terminal, `auto` writes words and colours instead of JSON."""
    stream = Terminal()
    configure("info", "auto", stream)
    logger().info("node is ready", groups=3)
    text = stream.getvalue()
    assert "node is ready" in text
    assert "\x1b[" in text
    assert not text.startswith("{")


def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is heeded, as by other programs."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure("info", "auto", stream)
    logger().info("node is ready")
    assert "\x1b" not in stream.getvalue()


def test_other_streams_get_json() -> None:
    """In a file or a pipe, `auto` writes JSON."""
    stream = io.StringIO()
    configure("info", "auto", stream)
    logger().info("node is ready")
    assert json_lines(stream)[0]["event"] == "node is ready"


def test_lines_for_people_can_be_had_anywhere() -> None:
    """`console` writes words into a file too, and no colours."""
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("node is ready", groups=3)
    assert "groups=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_lines_for_people_are_in_the_order_in_which_they_were_said() -> None:
    """What matters most was said first, and our own modules' names are left out."""
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("member gone", member="m-1", group="g")
    logging.getLogger("asyncio").error("task failed")
    ours, theirs = stream.getvalue().splitlines()
    assert ours.index("member=m-1") < ours.index("group=g")
    assert "coterie.test" not in ours
    assert "[asyncio]" in theirs


def test_less_important_lines_are_left_out() -> None:
    """Nothing below the level is written, whoever says it."""
    stream = io.StringIO()
    configure("warning", "json", stream)
    logger().info("little")
    logging.getLogger("asyncio").info("little too")
    logger().warning("much")
    assert [line["event"] for line in json_lines(stream)] == ["much"]


def test_lines_of_libraries_go_the_same_way() -> None:
    """What asyncio or aiohttp log is in the same form, with its logger's name."""
    stream = io.StringIO()
    configure("info", "json", stream)
    logging.getLogger("asyncio").error("task %s failed", "t-1")
    (line,) = json_lines(stream)
    assert (line["level"], line["event"], line["logger"]) == ("error", "task t-1 failed", "asyncio")


def fail(secret: str) -> None:
    """Raise an error, with a secret at hand."""
    assert secret
    raise ValueError("no such thing")


@pytest.mark.parametrize("style", ["json", "console"])
def test_exceptions_are_told_with_their_trace(style: str) -> None:
    """A line about an exception holds its traceback, without the values of variables."""
    stream = io.StringIO()
    configure("info", style, stream)
    try:
        fail("hunter" + str(2))
    except ValueError:
        logger().exception("failed")
    text = stream.getvalue()
    assert "ValueError: no such thing" in text
    assert "test_rebalances.py" in text
    assert "hunter2" not in text


def test_client_cannot_steer_the_terminal() -> None:
    """Control characters in what clients chose are written out, not sent to the terminal."""
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("group deleted", group="\x1b]0;owned\x07", member="a\nb")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "\\x1b]0;owned\\x07" in stream.getvalue()


def test_letters_of_all_languages_are_left_as_they_are() -> None:
    """Only control characters are written out."""
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("group deleted", group="größe")
    assert "größe" in stream.getvalue()


def test_closed_stream_does_not_stop_the_node() -> None:
    """A line that can't be written is lost, and nothing else happens."""
    stream = io.StringIO()
    configure("info", "json", stream)
    stream.close()
    logger().error("nobody hears this")
    logging.getLogger("asyncio").error("nor this")


def test_configuring_can_be_undone() -> None:
    """Whoever configures in a test can leave no trace."""
    handlers = list(logging.getLogger().handlers)
    undo = configure("debug", "json", io.StringIO())
    undo()
    assert logging.getLogger().handlers == handlers
    assert not structlog.is_configured()


def test_configuring_anew_can_be_undone() -> None:
    """Undoing goes back to what was configured before."""
    first, second = io.StringIO(), io.StringIO()
    configure("info", "json", first)
    undo = configure("info", "json", second)
    undo()
    logger().info("hello")
    logging.getLogger("asyncio").error("hello")
    assert (len(json_lines(first)), second.getvalue()) == (2, "")


def test_unknown_level_is_refused() -> None:
    """A level that does not exist is an error of the caller, not a silent log."""
    with pytest.raises(KeyError, match="LOUD"):
        configure("loud", "json", io.StringIO())


# -- what they say of rebalances ---------------------------------------------------------------


@pytest.fixture
def log() -> Iterator[LogLines]:
    """Collect what is logged, instead of printing it."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def observers(history: History) -> list[Observe]:
    """A history and the log that goes with it."""
    return [history.observe, RebalanceLog(history).observe]


@pytest.fixture
def tell(observers: list[Observe]) -> Observe:
    """Hand an event to both, as a node does."""

    def hand(ts_ms: int, event: Event) -> None:
        for observe in observers:
            observe(ts_ms, event)

    return hand


def said(log: LogLines, event: str) -> list[MutableMapping[str, Any]]:
    """The lines with these words."""
    return [line for line in log if line["event"] == event]


def test_rebalance_is_one_line_that_says_it_all(world: WatchedWorld, log: LogLines) -> None:
    """One line tells group, generation, cause in words, who came, who was waited for, how long."""
    first, second = world.pair()
    log.clear()
    third = world.member("c")
    third.join()
    world.sleep(SECOND_MS)
    first.join()
    world.sleep(SECOND_MS)
    second.join()
    world.sleep(500)
    world.share(first, second, third)
    (line,) = (line for line in log if line["log_level"] != "debug")
    assert line == {
        "event": "group rebalanced",
        "log_level": "info",
        "group": "g",
        "generation": 3,
        "because": CAUSES["member_joined"],
        "detail": third.id,
        "members": 3,
        "came": third.id,
        "waited_for": f"{second.id} at {second.host}, 2.0 s",
        "seconds": 2.5,
        "moved": 2,
        "revoked": 2,
        "stopped_partition_seconds": 2 * 1.5 + 2 * 0.5,
    }


def test_line_looks_readable_on_a_terminal(world: WatchedWorld) -> None:
    """What a person sees is words, and as it was said."""
    stream = io.StringIO()
    configure("info", "console", stream)
    world.pair()
    last = stream.getvalue().splitlines()[-1]
    assert "group rebalanced" in last
    assert "because='a member came that was not in the group'" in last
    assert "generation=2" in last


def test_rebalance_that_dropped_somebody_is_a_warning(world: WatchedWorld, log: LogLines) -> None:
    """Who did not come in time is named, with how long the others waited for nothing."""
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    world.live(20 * SECOND_MS, second)
    world.share(first)
    (gone,) = said(log, "member gone")
    assert (gone["log_level"], gone["member"]) == ("warning", second.id)
    assert gone["why"] == "it did not join the rebalance in time"
    assert gone["waited_seconds"] == 20
    line = said(log, "group rebalanced")[-1]
    assert (line["log_level"], line["dropped"]) == ("warning", second.id)
    assert line["waited_for"].endswith("20.0 s, which did not come (rebalance_expired)")


def test_overtaken_rebalance_is_told(world: WatchedWorld, log: LogLines) -> None:
    """A rebalance that another one overtakes has its line as well."""
    first, second = world.pair()
    first.join()
    second.join()
    world.member("c").join()
    (line,) = said(log, "rebalance overtaken by another")
    assert line["because"] == CAUSES["leader_rejoined"]


def test_emptied_group_is_told(world: WatchedWorld, log: LogLines) -> None:
    """When the last member goes, one line says so and why."""
    first, second = world.pair()
    second.leave()
    first.leave()
    (line,) = said(log, "group is empty")
    assert (line["because"], line["went"]) == (CAUSES["member_left"], f"{second.id}, {first.id}")


def test_interrupted_rebalance_is_told(tell: Observe, log: LogLines) -> None:
    """A rebalance whose end a crash swallowed is not left open."""
    tell(0, started())
    tell(9, GroupRecovered(group="g", state="Stable", generation=2, members=("m",)))
    assert len(said(log, "rebalance was interrupted")) == 1


# -- what they say of members ------------------------------------------------------------------


def test_dead_member_is_told_with_its_silence_and_its_limit(
    world: WatchedWorld, log: LogLines
) -> None:
    """Who fell silent is told with where it ran, how long it was silent and what the limit is."""
    first, second = world.pair(session_ms=10_000)
    world.live(11 * SECOND_MS, first)
    (line,) = said(log, "member gone")
    assert line == {
        "event": "member gone",
        "log_level": "warning",
        "group": "g",
        "member": second.id,
        "host": second.host,
        "why": "it was silent for longer than its session timeout",
        "silent_seconds": 10,
        "limit_seconds": 10,
        "partitions": 2,
    }


def test_leaving_member_is_told_with_its_reason(world: WatchedWorld, log: LogLines) -> None:
    """Who says that it leaves is no cause for worry."""
    _, second = world.pair()
    second.leave(reason="scaling in")
    (line,) = said(log, "member gone")
    assert (line["log_level"], line["reason"]) == ("info", "scaling in")
    assert "silent_seconds" not in line


def test_member_that_never_synced_is_told_with_the_wait(world: WatchedWorld, log: LogLines) -> None:
    """Who joined but never asked for its part is told with how long it had."""
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    second.join()
    first.sync({first: assigned("t")})
    world.live(20 * SECOND_MS, first, second)
    (line,) = said(log, "member gone")
    assert line["why"] == "it joined but never asked for its assignment"


def test_waiting_time_of_the_second_phase_counts_from_the_first(
    world: WatchedWorld, log: LogLines
) -> None:
    """Who holds up the second phase is not blamed for the first."""
    first, second = world.pair(rebalance_ms=20_000)
    first.join()
    world.live(5 * SECOND_MS, second)
    second.join()
    world.live(20 * SECOND_MS, first, second)
    waited = {line["member"]: line["waited_seconds"] for line in said(log, "member gone")}
    assert waited == {first.id: 20, second.id: 20}


def test_new_member_is_told_to_those_who_look_closely(world: WatchedWorld, log: LogLines) -> None:
    """Single joins are debug lines: the rebalance's line names who came."""
    world.member("a").join(reason="hello")
    (line,) = said(log, "member joined")
    assert (line["log_level"], line["reason"]) == ("debug", "hello")


def test_fenced_member_is_told_with_both_hosts(world: WatchedWorld, log: LogLines) -> None:
    """Two processes under one instance id are told apart by their hosts."""
    first = world.member("a", static="one", host="/10.0.0.1")
    world.form(first)
    second = first.restarted(host="/10.0.0.2")
    second.join()
    first.heartbeat()
    (back,) = said(log, "static member is back")
    assert (back["former_host"], back["host"]) == ("/10.0.0.1", "/10.0.0.2")
    (line,) = said(log, "member fenced")
    assert (line["host"], line["holder_host"]) == ("/10.0.0.1", "/10.0.0.2")
    assert (line["log_level"], line["request"], line["instance"]) == ("warning", "Heartbeat", "one")


def test_unclaimed_id_is_a_warning_only_while_somebody_waits(tell: Observe, log: LogLines) -> None:
    """Clients that ask for an id and go are no news, unless a rebalance waited for them."""
    tell(0, IdUnclaimed(group="g", member="ghost"))
    tell(1, started())
    tell(2, IdUnclaimed(group="g", member="ghost"))
    levels = [line["log_level"] for line in said(log, "member never came")]
    assert levels == ["debug", "warning"]


def test_unknown_way_to_go_is_told_as_it_is(tell: Observe, log: LogLines) -> None:
    """A journal of a newer Coterie can be replayed: what has no words here is quoted."""
    tell(0, gone("beamed_up"))
    (line,) = said(log, "member gone")
    assert line["why"] == "beamed_up"


# -- conflicts, groups, the node ---------------------------------------------------------------


def test_two_owners_are_an_error(tell: Observe, log: LogLines) -> None:
    """One loud line for each assignment tells how many partitions have two owners, and which."""
    for partition in range(7):
        tell(0, conflict(partition))
    tell(0, completed())
    (line,) = said(log, "partitions have two owners")
    assert (line["log_level"], line["partitions"]) == ("error", 7)
    assert line["such_as"].startswith("t-0 is held by a, given to b; t-1 is")
    assert "t-5" not in line["such_as"]


def test_withheld_partitions_are_a_warning(tell: Observe, log: LogLines) -> None:
    """What the guard prevented is told, but as what it is."""
    tell(0, conflict(0, withheld=True))
    tell(0, completed())
    assert not said(log, "partitions have two owners")
    (line,) = said(log, "partitions withheld until their owners let go of them")
    assert line["log_level"] == "warning"


def test_conflicts_are_told_once(tell: Observe, log: LogLines) -> None:
    """An assignment's conflicts are not told again by the next one."""
    tell(0, conflict(0))
    tell(0, completed())
    tell(1, completed())
    assert len(said(log, "partitions have two owners")) == 1


def test_groups_read_back_are_summed_up(tell: Observe, log: LogLines) -> None:
    """A start with thousands of groups is two lines."""
    for number in range(1_000):
        state = "Stable" if number % 2 else "PreparingRebalance"
        back = GroupRecovered(group=f"g{number}", state=state, generation=1, members=("a", "b"))
        tell(0, back)
    ready = NodeStarted(version="1.2", groups=1_000, offsets=7, load_ms=1_500, settings={"a": 1})
    tell(0, ready)
    assert [line["event"] for line in log] == ["groups with members read back", "node is ready"]
    assert log[0]["in_state"] == "500 PreparingRebalance, 500 Stable"
    assert (log[0]["groups"], log[0]["members"]) == (1_000, 2_000)
    assert (log[1]["version"], log[1]["load_seconds"]) == ("1.2", 1.5)


def test_group_that_is_read_back_again_counts_once(tell: Observe, log: LogLines) -> None:
    """On a full disk, each attempt to store anything ends with reading the groups back."""
    tell(0, NodeStarted(version="1", groups=2, offsets=0, load_ms=0))
    for state in ("Stable", "Stable", "PreparingRebalance"):
        for group in ("a", "b"):
            back = GroupRecovered(group=group, state=state, generation=1, members=("m", "n"))
            tell(1, back)
    for _ in range(2):
        tell(2, OffsetsCommitted(group="a", member="m", generation=1, offsets={}))
    (line,) = said(log, "groups with members read back")
    assert (line["groups"], line["members"]) == (2, 4)
    assert line["in_state"] == "2 PreparingRebalance"


def test_groups_taken_over_later_are_summed_up(tell: Observe, log: LogLines) -> None:
    """Groups that a running node takes over are summed up when something else happens."""
    tell(0, NodeStarted(version="1", groups=0, offsets=0, load_ms=0))
    for number in range(2):
        back = GroupRecovered(group=f"g{number}", state="Stable", generation=1, members=("a",))
        tell(1, back)
    tell(1, GroupRecovered(group="e", state="Empty", generation=1, members=()))
    tell(2, OffsetsCommitted(group="g", member="m", generation=1, offsets={}))
    assert [line["groups"] for line in said(log, "groups with members read back")] == [2]


@pytest.mark.parametrize(
    ("event", "words", "fields"),
    [
        (GroupDeleted(group="g", generation=4, how="requested"), "group deleted", {"group": "g"}),
        (GroupDeleted(group="g", generation=4, how="expired"), "group expired", {"generation": 4}),
        (
            OffsetsDeleted(group="g", partitions={"t": (0, 1), "u": (0,)}, how="topic_deleted"),
            "offsets deleted",
            {"partitions": 3, "why": "topic_deleted"},
        ),
        (OffsetsExpired(group="g", partitions={"t": (0,)}), "offsets expired", {"partitions": 1}),
        (
            TopicChanged(topic="t", change="grown", partitions_before=2, partitions=4),
            "topic changed",
            {"topic": "t", "change": "grown", "partitions": 4},
        ),
        (NodeStopped(reason="SIGTERM"), "node stopped", {"reason": "SIGTERM"}),
    ],
)
def test_other_events_have_their_lines(
    tell: Observe, log: LogLines, event: Any, words: str, fields: dict[str, Any]
) -> None:
    """What happens rarely and matters has a line of its own."""
    tell(0, event)
    (line,) = said(log, words)
    assert line["log_level"] == "info"
    assert fields.items() <= line.items()


def test_commits_make_no_lines(tell: Observe, log: LogLines) -> None:
    """What happens thousands of times a second is not logged."""
    tell(0, OffsetsCommitted(group="g", member="m", generation=1, offsets={}))
    assert log == []


# -- floods ------------------------------------------------------------------------------------


def test_flood_is_summed_up(tell: Observe, log: LogLines) -> None:
    """A client that comes and goes in a loop gets so many lines, the rest are one."""
    for _ in range(LINES_PER_WINDOW + 50):
        tell(0, gone("left"))
    assert len(log) == LINES_PER_WINDOW
    tell(WINDOW_MS, gone("left"))
    assert log[-2] == {"event": "more lines about groups", "log_level": "warning", "lines": 50}
    assert len(log) == LINES_PER_WINDOW + 2


def test_errors_are_told_in_a_flood(tell: Observe, log: LogLines) -> None:
    """Two owners are told however much else is going on."""
    for _ in range(LINES_PER_WINDOW + 50):
        tell(0, gone("left"))
    tell(0, conflict(0))
    tell(0, completed())
    assert len(said(log, "partitions have two owners")) == 1


def test_debug_lines_take_no_room(tell: Observe, log: LogLines) -> None:
    """Lines that are not even written push out none that are."""
    for _ in range(LINES_PER_WINDOW + 50):
        tell(0, joined())
    tell(0, gone("left"))
    assert len(said(log, "member gone")) == 1


# -- events ------------------------------------------------------------------------------------


def started() -> RebalanceStarted:
    """The start of a rebalance."""
    return RebalanceStarted(
        group="g",
        generation=1,
        from_state="Stable",
        cause="member_joined",
        detail="",
        awaited=(),
        deadline=None,
    )


def completed() -> RebalanceCompleted:
    """The end of a rebalance."""
    return RebalanceCompleted(
        group="g",
        generation=2,
        cause="member_joined",
        assigned={},
        moved=0,
        revoked=0,
        needs_rejoin=False,
        took_ms=0,
        total_ms=0,
    )


def conflict(partition: int, *, withheld: bool = False) -> OwnershipConflict:
    """A partition given to one member while another holds it."""
    return OwnershipConflict(
        group="g",
        generation=2,
        topic="t",
        partition=partition,
        holder="a",
        given_to="b",
        withheld=withheld,
    )


def joined() -> MemberJoined:
    """A member that came."""
    return MemberJoined(
        group="g",
        member="m",
        instance=None,
        client_id="",
        host="h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=("range",),
        topics=None,
    )


def gone(how: str) -> MemberGone:
    """A member that went."""
    return MemberGone(
        group="g",
        member="m",
        instance=None,
        host="h",
        how=how,
        silent_ms=0,
        session_timeout_ms=1,
    )


@pytest.mark.parametrize(
    ("event", "words", "fields"),
    [
        (
            NodePaused(paused_ms=12_000),
            "node did not run; no member is blamed for it",
            {"seconds": 12.0},
        ),
        (ClockStepped(stepped_ms=-3_000), "the system's clock was set", {"by_seconds": -3.0}),
    ],
)
def test_what_befell_the_node_is_a_warning(
    tell: Observe, log: LogLines, event: Any, words: str, fields: dict[str, Any]
) -> None:
    """A pause and a step of the clock are no bug, and somebody should know of them."""
    tell(0, event)
    (line,) = said(log, words)
    assert line["log_level"] == "warning"
    assert fields.items() <= line.items()
