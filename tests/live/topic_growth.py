"""Clients of any library whose topic gets more partitions.

All clients go through it at the same time, each with a topic and a group of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka import KafkaAdminClient

from tests.live.daemon import Daemon
from tests.live.group import LiveGroup
from tests.live.member import Client

__all__ = ["Growth", "grow_under", "test_grown_topic_is_assigned_at_once_in_one_rebalance"]

BEFORE: Final = frozenset(range(2))
AFTER: Final = frozenset(range(5))
#: Far less than the minutes after which clients look at their topics of their own accord.
SOON_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Growth:
    """What one client did."""

    client: Client
    #: Why it did not get all partitions, if so.
    failure: AssertionError | None
    #: The causes of the rebalances since the topic grew.
    causes: tuple[str, ...]


def grow_under(clients: Sequence[Client], daemon: Daemon, folder: Path) -> dict[str, Growth]:
    """Let the topics of all clients grow, and record what they do."""
    with ExitStack() as everything:
        admin = everything.enter_context(
            closing(KafkaAdminClient(bootstrap_servers=daemon.address))
        )
        live_groups = [
            everything.enter_context(
                LiveGroup(
                    daemon,
                    f"growth-of-{client}",
                    folder,
                    topic=f"growing-{client}",
                    partitions=BEFORE,
                )
            )
            for client in clients
        ]
        admin.create_topics(
            {live_group.topic: {"num_partitions": len(BEFORE)} for live_group in live_groups}
        )
        for client, live_group in zip(clients, live_groups, strict=True):
            live_group.start(client, f"growing-{client}")
        known = [
            len(live_group.calm(*live_group.members)["rebalances"]) for live_group in live_groups
        ]
        admin.create_partitions({live_group.topic: len(AFTER) for live_group in live_groups})
        found = [_see(*each) for each in zip(clients, live_groups, known, strict=True)]
    return {growth.client.name: growth for growth in found}


def _see(client: Client, live_group: LiveGroup, known: int) -> Growth:
    live_group.partitions = AFTER
    failure = None
    try:
        live_group.settle(*live_group.members, timeout_s=SOON_S)
    except AssertionError as error:
        failure = error
    causes = [each["cause"] for each in reversed(live_group.look()["rebalances"])]
    return Growth(client, failure, tuple(causes[known:]))


def test_grown_topic_is_assigned_at_once_in_one_rebalance(growth: Growth) -> None:
    if growth.failure is not None:
        raise growth.failure
    first, *others = growth.causes
    assert first == "topic_changed"
    assert others == [] or (growth.client.looks_again and set(others) == {"leader_rejoined"})
