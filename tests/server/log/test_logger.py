"""The server's loggers, where structlog is configured and where it is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from coterie_server.log.logger import get_logger, is_heard

NAME = "coterie_server.test"


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    """Begin as a program does that has configured nothing."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def test_lines_go_to_the_standard_library(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = get_logger(NAME)
    logger.debug("not heard")
    logger.warning("connection lost", peer="a\nb", port=1)
    logger.error("the end of 100%")
    found = [(each.name, each.levelname, each.getMessage()) for each in caplog.records]
    assert found == [
        (NAME, "WARNING", r"connection lost peer='a\nb' port=1"),
        (NAME, "ERROR", "the end of 100%"),
    ]
    assert capsys.readouterr().out == ""


def test_exceptions_go_along(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("no")  # noqa: TRY301  # it is what is logged
    except ValueError as error:
        get_logger(NAME).exception("failed", shard=3)
        known = error
    (record,) = caplog.records
    assert record.exc_info is not None
    assert (record.getMessage(), record.exc_info[1]) == ("failed shard=3", known)


def test_structlog_gets_lines_if_it_is_configured(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger(NAME)
    with structlog.testing.capture_logs() as lines:
        logger.warning("connection lost", port=1)
    assert lines == [{"event": "connection lost", "log_level": "warning", "port": 1}]
    assert not caplog.records


def test_structlogs_own_formatter_gets_no_variables(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.configure(cache_logger_on_first_use=False)
    password = "hunter" + str(2)
    logger = get_logger(NAME)
    try:
        raise ValueError(len(password))  # noqa: TRY301  # it is what is logged
    except ValueError as error:
        logger.exception("failed")
        logger.error("failed", exc_info=error)  # noqa: TRY400  # both ways are in use
    printed = capsys.readouterr().out
    assert (printed.count("Traceback"), printed.count("ValueError: 7")) == (2, 2)
    assert "hunter2" not in printed


def test_no_structlog_logger_is_made_for_lines_below_the_level() -> None:
    made: list[str] = []

    def make(*names: str) -> structlog.PrintLogger:
        made.extend(names)
        return structlog.PrintLogger()

    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet, logger_factory=make, cache_logger_on_first_use=False)
    logger = get_logger(NAME)
    logger.debug("member joined", member="m1")
    assert not made
    logger.warning("connection lost", port=1)
    assert made == [NAME]


def test_whether_a_level_is_heard() -> None:
    logger = get_logger(NAME)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    assert is_heard(logger.info)
    assert not is_heard(logger.debug)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    assert is_heard(logger.debug)
