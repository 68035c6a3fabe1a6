"""`coterie groups watch` on a daemon that is killed and comes back."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import IO

import pytest

from tests.live.commands import CommandRunner
from tests.live.daemon import HOST, Daemon, coterie, environment, eventually
from tests.live.wire import brokers
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


def watching(daemon: Daemon, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start to watch the group `static`."""
    http = f"{HOST}:{daemon.http_port}"
    command = [coterie(), "groups", "watch", "static", "--http", http, "--every", "0.1"]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment()
    )


@pytest.mark.parametrize("at_terminal", [False, True], ids=["piped", "terminal"])
def test_watch_says_since_when_a_killed_daemon_is_silent_and_picks_up(
    tmp_path: Path, *, at_terminal: bool
) -> None:
    seen = bytearray()

    def shows(text: str) -> bool:
        with contextlib.suppress(OSError):  # nothing new, or a terminal that was left
            seen.extend(os.read(reading, 65_536))
        return text.encode() in seen

    def is_over() -> bool:
        shows("")  # a terminal that nobody reads would hold it up
        return watch.poll() is not None

    reading, writing = pty.openpty() if at_terminal else os.pipe()
    os.set_blocking(reading, False)
    settings = {"group.initial.rebalance.delay.ms": 0}
    arguments = ("--http", f"{HOST}:{free_port()}")
    daemon = Daemon(tmp_path, topics={"orders": 3}, settings=settings, arguments=arguments)
    with daemon, CommandRunner(daemon.address, daemon.http_port).static_member():
        watch = watching(daemon, writing)
        os.close(writing)
        try:
            eventually(lambda: shows("Stable"), "the group")
            daemon.kill()
            eventually(lambda: shows("no answer since "), "the silence")
            assert watch.poll() is None
            seen.clear()
            daemon.start()
            back = "Stable" if at_terminal else "answers again, after "
            eventually(lambda: shows(back), "the answer")
            watch.send_signal(signal.SIGINT)
            eventually(is_over, "the end")
            assert watch.returncode == 0
        finally:
            watch.kill()
            watch.wait()
            os.close(reading)


def test_watch_goes_on_with_another_node_when_one_dies(tmp_path: Path) -> None:
    seen = bytearray()

    def shows(text: str) -> bool:
        with contextlib.suppress(BlockingIOError):
            seen.extend(os.read(reading, 65_536))
        return text.encode() in seen

    def node(number: int) -> Daemon:
        settings = {"node.id": number, "group.initial.rebalance.delay.ms": 0}
        arguments = ("--store", f"sqlite:{tmp_path / 'shared.db'}")
        return Daemon(
            tmp_path / str(number), topics={"orders": 3}, settings=settings, arguments=arguments
        )

    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with (
        node(1) as first,
        CommandRunner(first.address, first.http_port).static_member(),
        node(2) as second,
    ):
        both = {first.port, second.port}
        eventually(lambda: set(brokers(first.port).values()) == both, "the first knows the second")
        command = [coterie(), "groups", "watch", "static", "--bootstrap", first.address]
        watch = subprocess.Popen(
            [*command, "--every", "0.1"], stdout=writing, stderr=writing, env=environment()
        )
        try:
            eventually(lambda: shows("Stable"), "the group")
            first.kill()
            eventually(lambda: shows("answers again, after "), "the other node")
        finally:
            watch.kill()
            watch.wait()
            os.close(writing)
            os.close(reading)
