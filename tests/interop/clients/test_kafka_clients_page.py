"""The programs on the page about other languages' clients run as they are shown."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from coterie_client.admin import Admin
from tests.ground.documented import ROOT, blocks_of
from tests.interop.clients.toolchains import (
    ToolMissingError,
    franz_go_program,
    kafkajs_program,
)
from tests.live.daemon import Daemon, environment, eventually

pytestmark = pytest.mark.interop

PAGE: Final = ROOT / "docs" / "how-to" / "kafka-clients.md"
_END_S: Final = 60.0


@pytest.fixture(scope="module")
def orders(daemon: Daemon) -> Daemon:
    """A daemon with the topic of the page."""

    async def create() -> None:
        async with Admin(daemon.address) as admin:
            await admin.topics.create("orders", partitions=6)

    asyncio.run(create())
    return daemon


def program_of_the_page(language: str, daemon: Daemon, path: Path) -> Path:
    """Save the program in a language, with the daemon's address in place of the usual one."""
    [text] = [block.text for block in blocks_of(PAGE) if block.language == language]
    assert "127.0.0.1:9092" in text
    path.write_text(text.replace("127.0.0.1:9092", daemon.address), encoding="utf-8")
    return path


@contextmanager
def running(command: Callable[[], list[str]], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that does not outlive its test; without its tools, the test is skipped."""
    try:
        words = command()
    except ToolMissingError as error:
        pytest.skip(str(error))
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(),
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stop(process: subprocess.Popen[bytes], log: Path) -> None:
    """Ask it to stop, and see that it does."""
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it does not end\n{log.read_text()}")
    assert code == 0, log.read_text()


def test_kafkajs_program_tells_what_it_owns_and_ends_at_sigterm(
    orders: Daemon, tmp_path: Path
) -> None:
    source, log = (
        program_of_the_page("javascript", orders, tmp_path / "worker.js"),
        tmp_path / "log",
    )
    # What it waits with stands for a connection that kafkajs has forgotten, as it may where groups
    # move.
    kept_busy = tmp_path / "kept_busy.js"
    kept_busy.write_text(
        "setInterval(() => console.log(process.listenerCount('SIGTERM'), 'handlers'), 200);",
        encoding="utf-8",
    )
    with running(lambda: kafkajs_program(source, "--require", str(kept_busy)), log) as process:
        eventually(lambda: "[ 0, 1, 2, 3, 4, 5 ]" in told(log), lambda: told(log))
        eventually(lambda: "1 handlers" in told(log), lambda: told(log))
        stop(process, log)
    assert orders.group("node")["members"] == []


def told(log: Path) -> str:
    """What a program has printed, each array of its on one line."""
    return " ".join(log.read_text(encoding="utf-8", errors="replace").split())


def test_franz_go_program_tells_what_it_owns_and_gives_up(orders: Daemon, tmp_path: Path) -> None:
    source, log = program_of_the_page("go", orders, tmp_path / "worker.go"), tmp_path / "log"
    with running(lambda: franz_go_program(source), log) as process:
        eventually(lambda: "assigned [0 1 2 3 4 5]" in told(log), lambda: told(log))
        stop(process, log)
    assert "revoked [0 1 2 3 4 5]" in told(log)
    assert orders.group("go")["members"] == []
