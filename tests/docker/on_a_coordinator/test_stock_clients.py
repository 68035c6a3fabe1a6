"""The stock clients of Python, whose coordinator's container is stopped, and then killed."""

from __future__ import annotations

import pytest

from tests.docker.container import Container
from tests.live.chapters import *  # noqa: F403 - the tests
from tests.live.member import CLIENTS, Client
from tests.live.story import Story, live_through

pytestmark = pytest.mark.parametrize("client", CLIENTS, ids=str)


@pytest.fixture(scope="module")
def stories(container: Container, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Story]:
    """Let all clients live through the story."""
    return live_through(CLIENTS, container, tmp_path_factory.mktemp("members"))


@pytest.fixture
def story(client: Client, stories: dict[str, Story]) -> Story:
    """Tell what one client lived through."""
    return stories[client.name]
