"""Histories to replay, from the simulator: what befell the workers is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from coterie_protocol.journal import Line, write_line
from coterie_testing.kit import Cluster
from tests.support.flapping import TOPICS, flap


@cache
def _flapped(pauses: int) -> tuple[Line, ...]:
    with Cluster(TOPICS) as cluster:
        return tuple(flap(cluster, pauses, apart_s=60))


@pytest.fixture
def flapping() -> Callable[[str, int], list[str]]:
    """Make journals of three workers, one of which pauses for 12 s so many times.

    Their sessions end after 10 s.  The group has the name that is asked for, and so has the node.
    """

    def make(name: str, pauses: int) -> list[str]:
        events = [(line, line.event) for line in _flapped(pauses)]
        return [
            write_line(
                replace(line, node=name, event=replace(event, group=name) if event.group else event)
            )
            for line, event in events
        ]

    return make
