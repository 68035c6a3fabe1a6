"""What happens to clients of any library when their topic gets more partitions.

All clients see it at the same time, each with a topic and a group of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka import KafkaAdminClient

from tests.live.crew import Crew
from tests.live.daemon import Daemon
from tests.live.member import Client

__all__ = ["Growth", "grow_under", "test_grown_topic_is_shared_out_at_once"]

BEFORE: Final = frozenset(range(2))
AFTER: Final = frozenset(range(5))
#: Far less than the minutes after which clients look at their topics of their own accord.
SOON_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of one client."""

    client: Client
    #: Why it did not get all partitions, if so.
    failure: AssertionError | None
    #: The causes of the rebalances since the topic grew.
    causes: tuple[str, ...]


def grow_under(clients: Sequence[Client], daemon: Daemon, folder: Path) -> dict[str, Growth]:
    """Let the topics of all clients grow, and see what comes of it."""
    with ExitStack() as everything:
        admin = everything.enter_context(
            closing(KafkaAdminClient(bootstrap_servers=daemon.address))
        )
        crews = [
            everything.enter_context(
                Crew(
                    daemon,
                    f"growth-of-{client}",
                    folder,
                    topic=f"growing-{client}",
                    partitions=BEFORE,
                )
            )
            for client in clients
        ]
        admin.create_topics({crew.topic: {"num_partitions": len(BEFORE)} for crew in crews})
        for client, crew in zip(clients, crews, strict=True):
            crew.start(client, f"growing-{client}")
        known = [len(crew.calm(*crew.members)["rebalances"]) for crew in crews]
        admin.create_partitions({crew.topic: len(AFTER) for crew in crews})
        found = [_see(*each) for each in zip(clients, crews, known, strict=True)]
    return {growth.client.name: growth for growth in found}


def _see(client: Client, crew: Crew, known: int) -> Growth:
    crew.partitions = AFTER
    failure = None
    try:
        crew.settle(*crew.members, timeout_s=SOON_S)
    except AssertionError as error:
        failure = error
    causes = [each["cause"] for each in reversed(crew.look()["rebalances"])]
    return Growth(client, failure, tuple(causes[known:]))


def test_grown_topic_is_shared_out_at_once(growth: Growth) -> None:
    """Members get new partitions within moments, and by a single rebalance."""
    if growth.failure is not None:
        raise growth.failure
    first, *others = growth.causes
    assert first == "topic_changed"
    assert others == [] or (growth.client.looks_again and set(others) == {"leader_rejoined"})
