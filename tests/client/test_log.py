"""Lines of the client's log, as the standard library and structlog get them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from coterie_client.log import ROOT, Log

NAME = f"{ROOT}.test"


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    """Begin as a program does that has configured nothing."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    logging.getLogger(ROOT).setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Listen to the standard library's logging, from debug lines on."""
    caplog.set_level(logging.DEBUG, logger=ROOT)
    return caplog


def failure() -> ValueError:
    """An error that was raised somewhere."""
    with pytest.raises(ValueError, match="no") as caught:
        raise ValueError("no")
    return caught.value


def test_line_in_words(heard: pytest.LogCaptureFixture) -> None:
    """The event, then what belongs to it; the details are there as they are, too."""
    Log(NAME, group="billing").info("assigned", partitions="orders[0-3] users[1]", number=3)
    (record,) = heard.records
    assert record.getMessage() == (
        "assigned group=billing partitions='orders[0-3] users[1]' number=3"
    )
    assert (record.name, record.levelno, record.msg) == (NAME, logging.INFO, "assigned %s")
    assert vars(record)["coterie"] == {
        "event": "assigned",
        "group": "billing",
        "partitions": "orders[0-3] users[1]",
        "number": 3,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", "''"),
        ("two words", "'two words'"),
        ("a=b", "'a=b'"),
        ("it's", '"it\'s"'),
        ("line\nINFO forged", r"'line\nINFO forged'"),
        ("\x1b[2J", r"'\x1b[2J'"),
        (None, "None"),
        (0.5, "0.5"),
        ("100%s", "100%s"),
    ],
)
def test_values_can_not_pass_for_lines(
    heard: pytest.LogCaptureFixture, value: object, text: str
) -> None:
    Log(NAME).warning("event", value=value)
    assert heard.messages == [f"event value={text}"]


def test_line_without_details(heard: pytest.LogCaptureFixture) -> None:
    Log(NAME).error("the end")
    assert heard.messages == ["the end"]


def test_levels(heard: pytest.LogCaptureFixture) -> None:
    """Each has its method, and `write` takes its name."""
    log = Log(NAME)
    for severity in ("debug", "info", "warning", "error"):
        getattr(log, severity)("event")
        log.write(severity, "event", {})
    assert [record.levelname.lower() for record in heard.records[::2]] == [
        "debug",
        "info",
        "warning",
        "error",
    ]


def test_traceback_goes_along_as_the_exception(heard: pytest.LogCaptureFixture) -> None:
    error = failure()
    Log(NAME).write("error", "failed", {}, error)
    assert heard.records[0].exc_info == (ValueError, error, error.__traceback__)


def test_details_may_have_any_name(heard: pytest.LogCaptureFixture) -> None:
    Log(NAME).write("info", "event", {"name": 1, "message": 2, "args": 3})
    assert heard.messages == ["event name=1 message=2 args=3"]


def test_filter_that_raises_ends_nothing(
    heard: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_record: logging.LogRecord) -> bool:
        raise OSError("filter")

    logger = logging.getLogger(NAME)
    logger.addFilter(fails)
    try:
        Log(NAME).error("event")
    finally:
        logger.removeFilter(fails)
    assert not heard.records
    out, err = capsys.readouterr()
    assert (out, err.count("OSError: filter")) == ("", 1)


def configure(*processors: Any) -> list[dict[str, Any]]:
    """Configure structlog to keep its lines."""
    lines: list[dict[str, Any]] = []

    def keep(_logger: object, severity: str, event: Any) -> Any:
        lines.append({"severity": severity, **event})
        raise structlog.DropEvent

    structlog.configure(processors=[*processors, keep])
    return lines


def test_structlog_gets_events(heard: pytest.LogCaptureFixture) -> None:
    """When it is configured, and then the standard library gets nothing."""
    lines = configure()
    Log(NAME, group="billing").warning("lost", partitions=3)
    assert lines == [{"severity": "warning", "event": "lost", "group": "billing", "partitions": 3}]
    assert not heard.records


def test_structlog_is_looked_for_at_every_line(heard: pytest.LogCaptureFixture) -> None:
    log = Log(NAME)
    log.info("before")
    lines = configure()
    log.info("after")
    assert (heard.messages, [line["event"] for line in lines]) == (["before"], ["after"])


def test_structlog_gets_a_traceback_as_text() -> None:
    lines = configure()
    Log(NAME).write("error", "failed", {}, failure())
    assert lines[0]["stack"].startswith("Traceback (most recent call last):")
    assert lines[0]["stack"].endswith("ValueError: no")
    assert "exc_info" not in lines[0]


def test_structlog_that_hands_on_gets_the_exception() -> None:
    def render_to_log_kwargs(_logger: object, _severity: str, event: Any) -> Any:
        return event

    lines, error = configure(render_to_log_kwargs), failure()
    Log(NAME).write("error", "failed", {}, error)
    assert lines[0]["exc_info"] is error
    assert "stack" not in lines[0]


def test_structlog_that_fails(heard: pytest.LogCaptureFixture) -> None:
    """The line is not lost, and says so itself."""

    def full(_logger: object, _severity: str, _event: Any) -> Any:
        raise OSError("disk full")

    configure(full)
    Log(NAME).error("event", a=1)
    assert heard.messages == ["event a=1", "structlog failed error=\"OSError('disk full')\""]


@pytest.mark.parametrize(
    ("logger", "level", "is_heard"),
    [
        (NAME, logging.ERROR, False),
        (ROOT, logging.ERROR, False),
        (ROOT, logging.WARNING, True),
        ("", logging.CRITICAL, True),  # it holds for all, and structlog has a level of its own
    ],
)
def test_level_of_the_clients_loggers_counts_for_structlog(
    logger: str,
    level: int,
    is_heard: bool,  # noqa: FBT001  # pytest's
) -> None:
    lines = configure()
    before = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(level)
    try:
        Log(NAME).warning("event")
    finally:
        logging.getLogger(logger).setLevel(before)
    assert bool(lines) is is_heard


def test_logging_that_is_disabled_silences_structlog_too() -> None:
    lines = configure()
    logging.disable(logging.WARNING)
    Log(NAME).warning("event")
    assert not lines
