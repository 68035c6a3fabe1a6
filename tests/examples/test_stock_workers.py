"""The examples with stock clients share the shards of a daemon, each kind in a group of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from tests.examples.program import Program
from tests.live.daemon import Daemon, eventually

pytestmark = pytest.mark.slow

KINDS: Final = {"kafka_python": "kafka-python", "aiokafka": "aiokafka", "confluent": "confluent"}
SHARDS: Final = set(range(6))

Pair = tuple[Program, Program]


@pytest.fixture(scope="module")
def pairs(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pair]]:
    """Two workers of each kind, all started at once."""
    folder = tmp_path_factory.mktemp("stock")
    with ExitStack() as stack:

        def start(kind: str) -> Program:
            program = Program(folder, f"{kind}_worker.py", daemon.address)
            return stack.enter_context(program)

        yield {kind: (start(kind), start(kind)) for kind in KINDS}


def shards(program: Program) -> set[int]:
    """What a worker said last that it works on."""
    said = [line for line in program.log.splitlines() if line.startswith("works on")]
    return {int(word) for word in said[-1].split()[2:]} if said else set()


@pytest.mark.parametrize("kind", KINDS)
def test_worker_goes_on_where_the_other_one_stopped(
    daemon: Daemon, pairs: dict[str, Pair], kind: str
) -> None:
    # They share the shards; when one stops, the other has all, and goes on where it was.
    first, second = pairs[kind]
    eventually(
        lambda: len(shards(first)) == len(shards(second)) == 3, lambda: f"halves\n{first.log}"
    )
    assert shards(first) | shards(second) == SHARDS
    first.stop()
    eventually(lambda: shards(second) == SHARDS, lambda: f"all\n{second.log}")
    second.stop()
    words = ("offsets", "show", KINDS[kind], "--json", "--bootstrap", daemon.address)
    shown = json.loads(CliRunner().invoke(app, words).stdout)
    assert len(shown) == len(SHARDS)
    assert all(each["offset"] > 0 for each in shown.values())
