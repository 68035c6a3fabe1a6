"""One daemon with two listeners, and stock clients that can use only one of its addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.live.daemon import HOST, Daemon
from tests.live.group import ALL, TOPIC, LiveGroup
from tests.live.member import CLIENTS, Client
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

SETTINGS: Final = Path(__file__).resolve().parents[2] / "docs" / "settings.md"

#: Where no server listens, as a container's name means nothing to the machine around it.
NOWHERE: Final = f"{HOST}:1"


@dataclass(frozen=True, slots=True)
class Listeners:
    """A daemon, and where its second listener is."""

    daemon: Daemon
    second: str


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    """Run a daemon whose listener DEAF advertises an address that is nobody's."""
    second, deaf = (f"{HOST}:{free_port()}" for _ in range(2))
    arguments = (
        *("--listen", f"SECOND://{second}"),
        *("--listen", f"DEAF://{deaf}"),
        *("--advertise", f"DEAF://{NOWHERE}"),
    )
    with Daemon(
        tmp_path_factory.mktemp("listeners"),
        settings={"group.initial.rebalance.delay.ms": 0},
        topics={TOPIC: len(ALL)},
        arguments=arguments,
    ) as daemon:
        yield Listeners(daemon, second)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_clients_that_came_in_by_different_listeners_share_a_group(
    client: Client, listeners: Listeners, tmp_path: Path
) -> None:
    with LiveGroup(listeners.daemon, f"shared-{client.name}", tmp_path) as group:
        first = group.start(client, "first")
        second = group.start(client, "second", bootstrap=listeners.second)
        group.settle(first, second)


def test_all_listeners_are_named_when_the_daemon_is_ready(listeners: Listeners) -> None:
    told = f" is ready on {listeners.daemon.address} and SECOND://{listeners.second} and DEAF://"
    assert told in listeners.daemon.log()


def test_command_of_the_page_on_settings_starts_a_daemon(tmp_path: Path) -> None:
    (arguments,) = re.findall(
        r"^\$ coterie serve (--listen .*)$", SETTINGS.read_text(), re.MULTILINE
    )
    inside, outside = free_port(), free_port()
    for on_page, port in (("0.0.0.0:9092", inside), ("0.0.0.0:9094", outside)):
        assert on_page in arguments
        arguments = arguments.replace(on_page, f"0.0.0.0:{port}")
    ours = f"--http {HOST}:0 --data-dir {tmp_path / 'data'}"
    daemon = Daemon(tmp_path, prefix=("sh", "-c", f'exec "$0" serve {arguments} {ours}'))
    daemon.port = inside
    with daemon:
        told = f"is ready on 0.0.0.0:{inside} and OUTSIDE://0.0.0.0:{outside}, HTTP"
        assert told in daemon.log()
