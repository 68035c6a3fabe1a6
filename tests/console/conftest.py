"""A browser that looks at the console of a daemon, with members at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.console.console_page import watched
from tests.console.members import Members
from tests.live.daemon import HOST, Daemon
from tests.support.ports import free_port
from tools.pictures.chromium import WHY_NONE, chromium_arguments
from tools.pictures.chromium import chromium as chromium_path

SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
TOPICS: Final = {"orders": 12, "tenants": 2000}
#: How long a page may take to show anything; it only bounds a failure.
_PATIENCE_MS: Final = 60_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without windows.

    While playwright runs, so does an event loop in this thread: tests of other files, which start
    loops of their own, have to come after its end.
    """
    if (path := chromium_path()) is None:
        pytest.skip(WHY_NONE)
    expect.set_options(timeout=_PATIENCE_MS)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=path, args=chromium_arguments(), timeout=_PATIENCE_MS
        ) as browser,
    ):
        yield browser


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that is at the same address after a restart."""
    folder = tmp_path_factory.mktemp("console")
    http = ("--http", f"{HOST}:{free_port()}")
    with Daemon(folder, settings=SETTINGS, topics=TOPICS, arguments=http) as daemon:
        yield daemon


@pytest.fixture
def members(daemon: Daemon) -> Iterator[Members]:
    """Members of its groups, which are gone after a test."""
    with Members(daemon.address) as members:
        yield members


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A tab of its own."""
    with (
        closing(chromium.new_context(viewport={"width": 1280, "height": 900})) as context,
        watched(_patient(context)) as page,
    ):
        yield page


@pytest.fixture
def phone(chromium: Browser) -> Iterator[Page]:
    """A tab on a small screen, in the dark."""
    size = {"width": 390, "height": 844}
    with (
        closing(
            chromium.new_context(
                viewport={"width": size["width"], "height": size["height"]}, color_scheme="dark"
            )
        ) as context,
        watched(_patient(context)) as page,
    ):
        yield page


def _patient(context: BrowserContext) -> Page:
    context.set_default_timeout(_PATIENCE_MS)
    return context.new_page()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test's own daemon may keep its data."""
    return tmp_path / "own"
