"""The format of log lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from coterie_server.log import configure

LogLines = list[MutableMapping[str, Any]]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say that it is a terminal."""
        return True


def logger() -> structlog.stdlib.BoundLogger:
    """A logger as modules have it."""
    made: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("coterie.test")
    return made


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """What was written, line by line."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_line_has_time_level_words_and_fields() -> None:
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
    stream = io.StringIO()
    configure("info", "json", stream)
    logger().info("now")
    written = json_lines(stream)[0]["timestamp"]
    assert written.endswith("Z")
    assert abs(datetime.now(UTC) - datetime.fromisoformat(written)) < timedelta(minutes=1)


def test_terminal_gets_lines_for_people() -> None:
    stream = Terminal()
    configure("info", "auto", stream)
    logger().info("node is ready", groups=3)
    text = stream.getvalue()
    assert "node is ready" in text
    assert "\x1b[" in text
    assert not text.startswith("{")


def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs heed NO_COLOR as well."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure("info", "auto", stream)
    logger().info("node is ready")
    assert "\x1b" not in stream.getvalue()


def test_other_streams_get_json() -> None:
    stream = io.StringIO()
    configure("info", "auto", stream)
    logger().info("node is ready")
    assert json_lines(stream)[0]["event"] == "node is ready"


def test_lines_for_people_can_be_had_anywhere() -> None:
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("node is ready", groups=3)
    assert "groups=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_lines_for_people_are_in_the_order_in_which_they_were_said() -> None:
    """The first fields matter most; names of our own modules are left out."""
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("member gone", member="m-1", group="g")
    logging.getLogger("asyncio").error("task failed")
    ours, theirs = stream.getvalue().splitlines()
    assert ours.index("member=m-1") < ours.index("group=g")
    assert "coterie.test" not in ours
    assert "[asyncio]" in theirs


def test_less_important_lines_are_left_out() -> None:
    stream = io.StringIO()
    configure("warning", "json", stream)
    logger().info("little")
    logging.getLogger("asyncio").info("little too")
    logger().warning("much")
    assert [line["event"] for line in json_lines(stream)] == ["much"]


def test_lines_of_libraries_go_the_same_way() -> None:
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
    stream = io.StringIO()
    configure("info", style, stream)
    try:
        fail("hunter" + str(2))
    except ValueError:
        logger().exception("failed")
    text = stream.getvalue()
    assert "ValueError: no such thing" in text
    assert "test_configuration.py" in text
    assert "hunter2" not in text


def test_client_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("group deleted", group="\x1b]0;owned\x07", member="a\nb")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "\\x1b]0;owned\\x07" in stream.getvalue()


def test_letters_of_all_languages_are_left_as_they_are() -> None:
    stream = io.StringIO()
    configure("info", "console", stream)
    logger().info("group deleted", group="größe")
    assert "größe" in stream.getvalue()


def test_closed_stream_does_not_stop_the_node() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    stream.close()
    logger().error("nobody hears this")
    logging.getLogger("asyncio").error("nor this")


def test_configuring_can_be_undone() -> None:
    handlers = list(logging.getLogger().handlers)
    undo = configure("debug", "json", io.StringIO())
    undo()
    assert logging.getLogger().handlers == handlers
    assert not structlog.is_configured()


def test_configuring_anew_can_be_undone() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("info", "json", first)
    undo = configure("info", "json", second)
    undo()
    logger().info("hello")
    logging.getLogger("asyncio").error("hello")
    assert (len(json_lines(first)), second.getvalue()) == (2, "")


def test_unknown_level_is_refused() -> None:
    with pytest.raises(KeyError, match="LOUD"):
        configure("loud", "json", io.StringIO())
