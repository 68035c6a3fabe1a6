"""A member of a group in a process of its own, whatever client library and language it uses.

A member program takes its options as `name=value` on the command line, subscribes, polls, and
exchanges lines with the test:

    assigned 0,1,2          it was given these partitions, besides those that it has
    revoked 0,1             it gave these up
    lost 0,1                it was too late to give these up
                            (all three may be followed by at=SECONDS of the monotonic clock)
    error NAME text         its library complained, and goes on
    fatal NAME text         its library gave up

    commit 0=7 1=9          -> done commit
    committed               -> done committed 0=7 1=9     what the group has committed
    positions               -> done positions 0=7 1=9     where it would read on
    close                   -> done close                 it leaves, and its process ends

    failed COMMAND text     instead of `done COMMAND`
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.live.daemon import environment, suspend
from tests.live.ownership import Ownership
from tests.live.programs.lines import Options

__all__ = [
    "AIOKAFKA",
    "CLIENTS",
    "CONFLUENT",
    "CONFLUENT_COOPERATIVE",
    "KAFKA_PYTHON",
    "KAFKA_PYTHON_COOPERATIVE",
    "Client",
    "MemberError",
    "MemberProcess",
    "Step",
]

_ROOT: Final = Path(__file__).parents[2]
_ANSWER_S: Final = 60.0


class MemberError(RuntimeError):
    """A member did not do what it was asked for; the message has its output."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client library with one way of using it."""

    name: str
    #: The command line of the member program, without its options.
    command: Callable[[], list[str]]
    assignor: str
    #: Members keep what they may keep while they rebalance.
    is_cooperative: bool = False
    #: It joins its group again when the coordinator was away, of its own accord.
    rejoins_after_restart: bool = False
    #: It may give up its place when the coordinator was away, and come back as another member.
    is_another_after_restart: bool = False
    #: Its leader looks at the topics when it has led, and may then join once more.
    looks_again: bool = False
    #: It learns of new partitions only when its metadata are too old, minutes later.
    trusts_its_metadata: bool = False
    #: It can tell where it would read on before it has read anything.
    tells_positions: bool = True

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Step:
    """What a member was told of its partitions at one time."""

    #: "assigned", "revoked" or "lost".
    what: str
    partitions: set[int]
    #: Not a number if it tells no times.
    at_s: float


class MemberProcess:
    """A running member program."""

    def __init__(self, client: Client, options: Options, folder: Path) -> None:
        """Start it; what it has to say besides its lines goes to a file in the folder."""
        self.client = client
        self.name = options.client
        #: When it was asked to end, or killed.
        self.ended_s = math.inf
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._log_path = folder / f"{self.name}.log"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*client.command(), *options.words()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
                cwd=_ROOT,
                env=environment(),
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # -- what it says --------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self._process.poll() is None

    @property
    def lines(self) -> list[str]:
        """All lines that it has printed."""
        with self._changed:
            return list(self._lines)

    @property
    def owned(self) -> set[int]:
        """The partitions that it owns now."""
        owned: set[int] = set()
        for what, partitions in self.changes():
            owned = owned | partitions if what == "assigned" else owned - partitions
        return owned

    def changes(self, since: int = 0) -> list[tuple[str, set[int]]]:
        """What it was assigned and revoked, and lost, in order, from a line on."""
        return [(step.what, step.partitions) for step in self.steps(since)]

    def steps(self, since: int = 0) -> list[Step]:
        """As `changes`, with the time of each."""
        found = []
        for line in self.lines[since:]:
            what, _, rest = line.partition(" ")
            if what in ("assigned", "revoked", "lost"):
                numbers, _, at = rest.partition(" at=")
                partitions = {int(word) for word in numbers.split(",") if word}
                found.append(Step(what, partitions, float(at) if at else math.nan))
        return found

    def ownerships(self) -> list[Ownership]:
        """When it owned which partition, by what it was told."""
        began: dict[int, float] = {}
        found = []
        for step in self.steps():
            assert not math.isnan(step.at_s), f"{self.name} tells no times"
            for partition in step.partitions:
                if step.what == "assigned":
                    began.setdefault(partition, step.at_s)
                elif partition in began:
                    found.append(self._stint(partition, began.pop(partition), step.at_s))
        return found + [self._stint(each, at_s, self.ended_s) for each, at_s in began.items()]

    def _stint(self, partition: int, began_s: float, ended_s: float) -> Ownership:
        return Ownership(partition=partition, member=self.name, began_s=began_s, ended_s=ended_s)

    def given_up(self, since: int = 0) -> set[int]:
        """All partitions that were ever taken from it, from a line on."""
        taken = (partitions for what, partitions in self.changes(since) if what != "assigned")
        return set().union(*taken)

    def fatal(self) -> list[str]:
        """Why its library gave up, if it did."""
        return [line for line in self.lines if line.startswith("fatal ")]

    def wait_for(self, true: Callable[[], object], what: str, timeout_s: float = _ANSWER_S) -> None:
        """Wait until its output makes a condition true."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not true():
                if not self._reader.is_alive():
                    raise MemberError(f"{self.name} ended before: {what}\n{self.told()}")
                if time.monotonic() > deadline:
                    raise MemberError(f"{self.name}: not in {timeout_s:g} s: {what}\n{self.told()}")
                self._changed.wait(0.2)

    def told(self) -> str:
        """All of its output, for a message."""
        return "\n".join([*self.lines, self._log_path.read_text(errors="replace")[-4000:]])

    # -- what it is asked ----------------------------------------------------------------------

    def ask(self, command: str, *words: str) -> list[str]:
        """Give a command and return the words of its answer; raise `MemberError` if it failed."""
        since = len(self.lines)
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join((command, *words)) + "\n")
        self._process.stdin.flush()

        def answer() -> str | None:
            endings = (f"done {command}", f"failed {command}")
            return next((line for line in self.lines[since:] if line.startswith(endings)), None)

        self.wait_for(answer, f"an answer to {command}")
        answered = answer()
        assert answered is not None
        if answered.startswith("failed"):
            raise MemberError(f"{self.name}: {answered}")
        return answered.split()[2:]

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets."""
        self.ask("commit", *(f"{partition}={offset}" for partition, offset in offsets.items()))

    def offsets(self, command: str) -> dict[int, int]:
        """What it answers to `committed` or `positions`."""
        pairs = (word.split("=") for word in self.ask(command))
        return {int(partition): int(offset) for partition, offset in pairs}

    # -- its end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Let it leave the group and end."""
        self.ended_s = time.monotonic()
        self.ask("close")
        self._process.wait(_ANSWER_S)
        self._hang_up()

    def suspend(self, seconds: float) -> None:
        """Stop its process for so long, as SIGSTOP does."""
        suspend(self._process, seconds)

    def die(self) -> None:
        """Kill it, so that it does not leave, if it still runs."""
        self.ended_s = min(self.ended_s, time.monotonic())
        self._process.kill()
        self._process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        self._reader.join(_ANSWER_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.live.programs.{module}"]


_CONFLUENT: Final = _python("confluent_member")
_KAFKA_PYTHON: Final = _python("kafka_python_member")

KAFKA_PYTHON: Final = Client("kafka-python", _KAFKA_PYTHON, "range", looks_again=True)
KAFKA_PYTHON_COOPERATIVE: Final = Client(
    "kafka-python-cooperative",
    _KAFKA_PYTHON,
    "cooperative-sticky",
    is_cooperative=True,
    looks_again=True,
)
AIOKAFKA: Final = Client("aiokafka", _python("aiokafka_member"), "roundrobin")
CONFLUENT: Final = Client("confluent-kafka", _CONFLUENT, "range", tells_positions=False)
CONFLUENT_COOPERATIVE: Final = Client(
    "confluent-kafka-cooperative",
    _CONFLUENT,
    "cooperative-sticky",
    is_cooperative=True,
    tells_positions=False,
)

#: The stock clients that Python has.
CLIENTS: Final = (
    KAFKA_PYTHON,
    KAFKA_PYTHON_COOPERATIVE,
    AIOKAFKA,
    CONFLUENT,
    CONFLUENT_COOPERATIVE,
)
