"""The examples with stock clients share the shards of a daemon, each kind in a group of its own."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaConnectionError
from typer.testing import CliRunner

from coterie_cli.main import app
from examples import confluent_worker, kafka_python_worker
from tests.examples.program import Program
from tests.live.daemon import Daemon, eventually

pytestmark = pytest.mark.slow

KINDS: Final = {"kafka_python": "kafka-python", "aiokafka": "aiokafka", "confluent": "confluent"}
SHARDS: Final = set(range(6))
#: Longer than the libraries try by themselves before they tell of it, and less than a session.
AWAY_S: Final = 8

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
    shown = committed(daemon, KINDS[kind])
    assert len(shown) == len(SHARDS)
    assert all(each > 0 for each in shown.values())


def committed(daemon: Daemon, group: str) -> dict[str, int]:
    """How far a group has come in each partition."""
    words = ("offsets", "show", group, "--json", "--bootstrap", daemon.address)
    shown = json.loads(CliRunner().invoke(app, words).stdout)
    return {partition: each["offset"] for partition, each in shown.items()}


def test_workers_go_on_after_their_coordinator_was_away(tmp_path: Path) -> None:
    with Daemon(tmp_path / "daemon", topics={"shards": 6}) as daemon, ExitStack() as stack:
        workers = {
            group: stack.enter_context(Program(tmp_path, f"{kind}_worker.py", daemon.address))
            for kind, group in KINDS.items()
        }
        eventually(
            lambda: all(
                shards(worker) == SHARDS and committed(daemon, group)
                for group, worker in workers.items()
            ),
            lambda: "all of them to begin",
        )
        generations = {group: daemon.group(group)["generation"] for group in workers}
        daemon.kill()
        time.sleep(AWAY_S)
        daemon.start()

        before = {group: committed(daemon, group) for group in workers}
        for group, worker in workers.items():
            eventually(partial(has_gone_on, daemon, group, before[group]), partial(logged, worker))
            assert daemon.group(group)["generation"] == generations[group]


@pytest.mark.parametrize("kind", KINDS)
def test_worker_ends_when_it_is_told_to_though_its_coordinator_is_away(
    tmp_path: Path, kind: str
) -> None:
    with (
        Daemon(tmp_path / "daemon", topics={"shards": 6}) as daemon,
        Program(tmp_path, f"{kind}_worker.py", daemon.address) as worker,
    ):
        eventually(
            lambda: shards(worker) == SHARDS and committed(daemon, KINDS[kind]), lambda: worker.log
        )
        daemon.kill()
        worker.stop()


def has_gone_on(daemon: Daemon, group: str, before: dict[str, int]) -> bool:
    """Whether a group has come further in each partition."""
    after = committed(daemon, group)
    return all(after[partition] > offset for partition, offset in before.items())


def logged(worker: Program) -> str:
    """What is told of a worker that did not do what it should."""
    return f"to go on\n{worker.log}"


class Unreachable:
    """A consumer whose calls fail, each for once, as they do while its coordinator is away."""

    def __init__(self, **_: object) -> None:
        self._failing = {"poll", "committed", "commit"}
        self.committed_offsets: dict[TopicPartition, OffsetAndMetadata] = {}

    def _fail_once(self, what: str) -> None:
        if what in self._failing:
            self._failing.remove(what)
            raise KafkaConnectionError("111 ECONNREFUSED")

    def subscribe(self, topics: list[str], listener: object) -> None:
        """Take note of nothing."""

    def assignment(self) -> set[TopicPartition]:
        """One shard, all the time."""
        return {TopicPartition("shards", 0)}

    def poll(self, **_: object) -> None:
        """Take part in the group."""
        self._fail_once("poll")

    def committed(self, _: TopicPartition) -> int:
        """Nothing but a beginning."""
        self._fail_once("committed")
        return 7

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit, and have the worker stopped."""
        self._fail_once("commit")
        self.committed_offsets = offsets
        signal.raise_signal(signal.SIGTERM)

    def close(self) -> None:
        """Leave."""


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Put back what handles the signals that a worker in this process handles."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
def test_kafka_python_worker_goes_on_when_any_call_finds_no_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Unreachable()
    monkeypatch.setattr(kafka_python_worker, "KafkaConsumer", lambda **_: consumer)
    kafka_python_worker.main("127.0.0.1:9")
    [offset] = consumer.committed_offsets.values()
    assert offset.offset > 7


class Failing:
    """A consumer of confluent-kafka whose first commit fails, and whose second stops the worker."""

    def __init__(self, code: int) -> None:
        self._errors = [KafkaException(KafkaError(code))]
        self._is_new = True
        self._assign: Any = None
        self.committed_offsets: list[int] = []

    def subscribe(self, *_: object, on_assign: object, **__: object) -> None:
        """Remember whom to tell of the shard."""
        self._assign = on_assign

    def poll(self, _: float) -> None:
        """Give it a shard, once."""
        if self._is_new:
            self._is_new = False
            self._assign(self, [ConfluentPartition("shards", 0)])

    def committed(
        self, partitions: list[ConfluentPartition], **_: object
    ) -> list[ConfluentPartition]:
        """Nothing but a beginning."""
        return [ConfluentPartition(each.topic, each.partition, 7) for each in partitions]

    def incremental_assign(self, partitions: list[ConfluentPartition]) -> None:
        """Take it."""

    def commit(self, *, offsets: list[ConfluentPartition], **_: object) -> None:
        """Fail at first; then commit, and have the worker stopped."""
        if self._errors:
            raise self._errors.pop()
        self.committed_offsets = [each.offset for each in offsets]
        signal.raise_signal(signal.SIGTERM)

    def close(self) -> None:
        """Leave."""


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("code", ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "_WAIT_COORD"])
def test_confluent_worker_goes_on_when_a_commit_finds_no_coordinator(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    consumer = Failing(getattr(KafkaError, code))
    monkeypatch.setattr(confluent_worker, "Consumer", lambda _: consumer)
    confluent_worker.main("127.0.0.1:9")
    assert consumer.committed_offsets == [9]
