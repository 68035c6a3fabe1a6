"""The workers that the pages show leave their group when a service manager stops them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ground.documented import ROOT, blocks_of
from tests.live.daemon import Daemon, environment, eventually

pytestmark = pytest.mark.slow

README = ROOT / "README.md"
QUICK_START = ROOT / "docs" / "quick-start.md"

#: Their sessions last 45 seconds.
AT_ONCE_S = 40.0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a daemon with the topic of the pages, whose first rebalances are quick."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    folder = tmp_path_factory.mktemp("daemon")
    with Daemon(folder, settings=settings, topics={"orders": 6}) as daemon:
        yield daemon


def shares(daemon: Daemon, group: str) -> list[int]:
    """How many partitions each member has."""
    try:
        members = daemon.group(group)["members"]
    except OSError:
        return []
    return sorted(len(_numbers(member["owned"] or {})) for member in members)


def _numbers(owned: Mapping[str, Sequence[int]]) -> list[int]:
    return [number for numbers in owned.values() for number in numbers]


@pytest.mark.parametrize(
    ("page", "program", "group"),
    [
        pytest.param(README, "worker.py", "billing", id="readme"),
        pytest.param(README, "stock.py", "stock", id="stock client"),
        pytest.param(QUICK_START, "counting.py", "billing", id="quick start"),
    ],
)
def test_partitions_move_at_once_after_sigterm(
    daemon: Daemon, tmp_path: Path, page: Path, program: str, group: str
) -> None:
    (block,) = (block for block in blocks_of(page) if block.title == program)
    path, log_path = tmp_path / program, tmp_path / "log"
    path.write_text(block.text.replace("127.0.0.1:9092", daemon.address), encoding="utf-8")
    with ExitStack() as started, log_path.open("wb") as log:

        def start() -> subprocess.Popen[bytes]:
            command = (sys.executable, str(path))
            worker = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
            started.callback(worker.wait)
            started.callback(worker.kill)
            return worker

        first, second = start(), start()
        # A page's loop does not know that kafka-python may forget a join until its session is over.
        eventually(lambda: shares(daemon, group) == [3, 3], lambda: str(shares(daemon, group)), 120)
        first.terminate()
        assert first.wait(AT_ONCE_S) == 0, log_path.read_text(encoding="utf-8")
        eventually(lambda: shares(daemon, group) == [6], "all for the other one", AT_ONCE_S)
        second.terminate()
        assert second.wait(AT_ONCE_S) == 0
    assert "Traceback" not in log_path.read_text(encoding="utf-8")
