"""The stock clients of Python against a live daemon, each in processes of its own.

They all live through `tests/live/story.py` at the same time, once; each test looks at one chapter.
"""

from __future__ import annotations

import pytest

from tests.live.chapters import *  # noqa: F403 - the tests
from tests.live.daemon import Daemon
from tests.live.growth import *  # noqa: F403 - the test
from tests.live.growth import Growth, grow_under
from tests.live.member import CLIENTS, Client
from tests.live.story import Story, live_through

pytestmark = pytest.mark.parametrize("client", CLIENTS, ids=str)


@pytest.fixture(scope="module")
def stories(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Story]:
    """Let all clients live through the story."""
    return live_through(CLIENTS, daemon, tmp_path_factory.mktemp("members"))


@pytest.fixture
def story(client: Client, stories: dict[str, Story]) -> Story:
    """Tell what one client lived through."""
    return stories[client.name]


@pytest.fixture(scope="module")
def growths(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Growth]:
    """Let the topics of all clients grow."""
    return grow_under(CLIENTS, daemon, tmp_path_factory.mktemp("growing"))


@pytest.fixture
def growth(client: Client, growths: dict[str, Growth]) -> Growth:
    """Tell what one client made of it."""
    return growths[client.name]
