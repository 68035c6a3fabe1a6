"""Clients of other languages against a live daemon: Java, JavaScript and Go.

They go through the same lifecycle as those of Python (`tests/live/lifecycle.py`), all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.interop.clients.toolchains import (
    ToolMissingError,
    franz_go_command,
    java_command,
    kafka_go_command,
    kafkajs_command,
    platformatic_command,
    sarama_command,
)
from tests.live.daemon import Daemon
from tests.live.lifecycle import Lifecycle, run_lifecycles
from tests.live.lifecycle_tests import *  # noqa: F403 - the tests
from tests.live.member import Client
from tests.live.topic_growth import *  # noqa: F403 - the test
from tests.live.topic_growth import Growth, grow_under


def java_by_default() -> list[str]:
    """Kafka's own consumer as it is if nothing is set: since Java 4, it bootstraps again."""
    return [*java_command(), "recovery=rebootstrap"]


#: kafkajs tells no positions, and neither does franz-go before there is a record.
#: franz-go and sarama give up their place in the generation when they can't connect to the
#: coordinator, and kafka-go its membership. So does kafkajs, if its fetch loop, which asks the
#: same broker, comes to grief in that time; with a broker of Kafka's it always does.
CLIENTS: Final = (
    Client("java", java_command, "range"),
    Client("java-cooperative", java_command, "cooperative-sticky", is_cooperative=True),
    Client("java-by-default", java_by_default, "range", rejoins_after_restart=True),
    Client(
        "kafkajs",
        kafkajs_command,
        "roundrobin",
        tells_positions=False,
        is_another_after_restart=True,
    ),
    Client(
        "franz-go", franz_go_command, "range", tells_positions=False, rejoins_after_restart=True
    ),
    Client(
        "franz-go-cooperative",
        franz_go_command,
        "cooperative-sticky",
        is_cooperative=True,
        tells_positions=False,
        rejoins_after_restart=True,
    ),
    Client("sarama", sarama_command, "range", rejoins_after_restart=True),
    Client("kafka-go", kafka_go_command, "range", is_another_after_restart=True),
    Client("platformatic", platformatic_command, "roundrobin", trusts_its_metadata=True),
)

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("client", CLIENTS, ids=str)]


@pytest.fixture(scope="module")
def problems() -> dict[str, str]:
    """Make the programs and tell which of them can't be made here, and why."""
    problems: dict[Callable[[], list[str]], str] = {}
    for command in {client.command for client in CLIENTS}:
        try:
            command()
        except ToolMissingError as error:
            problems[command] = str(error)
    return {each.name: problems[each.command] for each in CLIENTS if each.command in problems}


@pytest.fixture(scope="module")
def runnable(problems: dict[str, str]) -> list[Client]:
    """Tell which clients can be run here."""
    return [client for client in CLIENTS if client.name not in problems]


@pytest.fixture(scope="module")
def lifecycles(
    daemon: Daemon, runnable: list[Client], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Lifecycle]:
    """Take all clients that run here through the lifecycle."""
    return run_lifecycles(runnable, daemon, tmp_path_factory.mktemp("members"))


@pytest.fixture
def lifecycle(
    client: Client, problems: dict[str, str], lifecycles: dict[str, Lifecycle]
) -> Lifecycle:
    """What one client saw."""
    if client.name in problems:
        pytest.skip(problems[client.name])
    return lifecycles[client.name]


@pytest.fixture(scope="module")
def growths(
    daemon: Daemon, runnable: list[Client], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Growth]:
    """Let the topics of all clients grow."""
    watchful = [client for client in runnable if not client.trusts_its_metadata]
    return grow_under(watchful, daemon, tmp_path_factory.mktemp("growing"))


@pytest.fixture
def growth(client: Client, problems: dict[str, str], growths: dict[str, Growth]) -> Growth:
    """What one client did."""
    if client.name in problems:
        pytest.skip(problems[client.name])
    if client.trusts_its_metadata:
        pytest.skip("it learns of new partitions only when its metadata are too old")
    return growths[client.name]
