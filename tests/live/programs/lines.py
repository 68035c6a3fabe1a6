"""The lines that a member program and its test exchange; see `tests/live/member.py`."""

from __future__ import annotations

import dataclasses
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Options", "commands", "offsets_of", "say", "say_offsets", "say_partitions", "serve"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a member program is told on its command line, as `name=value`."""

    bootstrap: str
    group: str
    topic: str
    client: str
    assignor: str
    instance: str | None = None
    session_ms: int = 20_000
    heartbeat_ms: int = 200
    #: Which most clients call max.poll.interval.ms.
    rebalance_ms: int = 30_000

    @classmethod
    def read(cls) -> Options:
        """Take them from this process's command line."""
        given: dict[str, Any] = dict(argument.split("=", 1) for argument in sys.argv[1:])
        for name in ("session_ms", "heartbeat_ms", "rebalance_ms"):
            given[name] = int(given[name])
        return cls(**given)

    def words(self) -> list[str]:
        """Put them on a command line; what is None is left out."""
        values = dataclasses.asdict(self)
        return [f"{name}={value}" for name, value in values.items() if value is not None]


def say(*words: object) -> None:
    """Print one line; callbacks of several threads do."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def say_partitions(what: str, partitions: Iterable[int]) -> None:
    """Print which partitions came or went, and when."""
    say(what, ",".join(map(str, sorted(partitions))), f"at={time.monotonic()}")


def say_offsets(what: str, offsets: Mapping[int, int]) -> None:
    """Print the answer to a question about offsets."""
    say("done", what, *(f"{partition}={offset}" for partition, offset in sorted(offsets.items())))


def offsets_of(words: Iterable[str]) -> dict[int, int]:
    """Read `PARTITION=OFFSET ...`."""
    pairs = (word.split("=", 1) for word in words)
    return {int(partition): int(offset) for partition, offset in pairs}


def commands() -> queue.SimpleQueue[list[str]]:
    """What the test asks for, line by line; the end of input asks to close."""
    asked: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            asked.put(line.split())
        asked.put(["close"])

    threading.Thread(target=read, daemon=True).start()
    return asked


def serve(poll: Callable[[], object], answers: Mapping[str, Callable[[list[str]], object]]) -> None:
    """Poll and answer in turns, in one thread, as most clients want it, until `close`."""
    asked = commands()
    while True:
        try:
            word, *rest = asked.get_nowait()
        except queue.Empty:
            poll()
            continue
        try:
            answers[word](rest)
        except Exception as error:  # noqa: BLE001 - the test is told, whatever it is
            say("failed", word, type(error).__name__, error)
        if word == "close":
            return
