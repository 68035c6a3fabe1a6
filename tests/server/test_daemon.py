"""What the daemon asks of the system it runs on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from coterie_server import daemon
from coterie_server.daemon import (
    Reloading,
    collect_garbage_rarely,
    notify_systemd,
    raise_open_file_limit,
)
from coterie_server.server import Address, ListenerOptions, ServerOptions
from coterie_server.server_error import ServerError

OPTIONS = ServerOptions(listeners=(ListenerOptions(Address("127.0.0.1", 0), None),))


def test_systemd_is_told_if_it_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        notify_systemd("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    notify_systemd("READY=1")


def run_python(
    code: str, *, prepared: str = 'exec "$@"', **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a line of Python in a process that a shell has prepared."""
    command = ["sh", "-c", prepared, "sh", sys.executable, "-c", code]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, env=environ, timeout=60, check=False, **streams)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errno.EACCES, "Permission denied. Check the rights on it and on its folder."),
        (errno.EIO, "Input/output error. Check the disk, and the system's log."),
        (errno.ENOENT, "No such file or directory."),
    ],
)
def test_a_file_that_cannot_be_read_at_the_start_is_named(error: int, said: str) -> None:
    """As one of the journal's; without a traceback."""
    code = (
        "import os, sys; from coterie_server import daemon\n"
        "from tests.server.test_daemon import *\n"
        f"async def serve(*_, **__): raise OSError({error}, os.strerror({error}), 'd/journal/j')\n"
        "daemon.serve = serve; sys.exit(daemon.run(OPTIONS))"
    )
    ended = run_python(code, capture_output=True)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr.decode()
    assert ended.stderr.decode().splitlines()[-1] == f"coterie: d/journal/j can't be used: {said}"


def test_what_is_told_is_written_at_once() -> None:
    """Also where it is not a terminal that reads it."""
    code = "from coterie_server.daemon import *; import os; tell('ready'); os._exit(0)"
    assert run_python(code, stdout=subprocess.PIPE).stdout == b"ready\n"


def test_output_that_is_full_keeps_nothing_waiting() -> None:
    """As that of a daemon that was started again beside a reader that hangs."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    code = "from coterie_server.daemon import *; tell('ready')"
    assert run_python(code, stdout=writing, stderr=subprocess.PIPE).returncode == 0
    os.close(reading)
    os.close(writing)


def test_output_that_nobody_reads_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = "from coterie_server.daemon import *; tell('ready'); print('and more')"
    ended = run_python(code, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert ended.returncode == 0
    assert b"standard output can't be written" in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert b"Exception ignored" not in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_standard_stream(closed: str) -> None:
    """What is printed would be written into it; uvloop aborts when it closes such a one."""
    code = (
        "from coterie_server.daemon import *; import os; open_standard_streams();"
        " [os.fstat(number) for number in range(3)];"
        " os._exit(os.open(os.devnull, os.O_RDONLY))"
    )
    assert run_python(code, prepared=f'exec "$@" {closed}').returncode >= 3


@pytest.mark.parametrize(("module", "workers"), [("daemon", 1), ("workers.supervisor", 2)])
def test_daemon_whose_standard_error_is_closed_says_nothing_and_goes_on(
    module: str, workers: int, tmp_path: Path
) -> None:
    """As far as it can: here, until it finds that the address is not this machine's."""
    code = (
        f"import sys; from pathlib import Path; from coterie_server.{module} import run;"
        " from coterie_server.config.settings import Settings;"
        " from coterie_server.server import Address, ListenerOptions, ServerOptions;"
        " listeners = (ListenerOptions(Address('192.0.2.1', 9092), None),);"
        f" options = ServerOptions(Settings(workers={workers}), listeners, data_dir=Path('data'));"
        " print(run(options), sys.stderr.fileno())"
    )
    ended = run_python(code, prepared='exec "$@" 2>&-', stdout=subprocess.PIPE, cwd=tmp_path)
    assert ended.stdout == b"1 2\n"


class Limits:
    """Stands in for the system's limits of open files."""

    def __init__(self, soft: int, hard: int, attainable: int | None = None) -> None:
        self.now = (soft, hard)
        self._attainable = attainable

    def get(self, _: int) -> tuple[int, int]:
        """As resource.getrlimit."""
        return self.now

    def set(self, _: int, wanted: tuple[int, int]) -> None:
        """As resource.setrlimit."""
        if self._attainable is not None and wanted[0] > self._attainable:
            raise ValueError("not permitted")
        self.now = wanted


def limit(number: int) -> int:
    """A limit as the system gives it, of which -1 stands for none."""
    return resource.RLIM_INFINITY if number == -1 else number


@pytest.mark.parametrize(
    ("soft", "hard", "attainable", "soft_after", "connections"),
    [
        pytest.param(1024, 524_288, None, 5100, 5000, id="raised to what is needed"),
        pytest.param(1024, -1, None, 5100, 5000, id="raised below an unlimited one"),
        pytest.param(1024, 4096, None, 4096, 3996, id="raised as far as it goes"),
        pytest.param(1024, -1, 2000, 1024, 924, id="not raised where the system refuses"),
        pytest.param(8192, 8192, None, 8192, 5000, id="left alone when it is enough"),
        pytest.param(-1, -1, None, -1, 5000, id="left alone when there is none"),
        pytest.param(50, 50, None, 50, 1, id="never less than one"),
    ],
)
def test_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch,
    soft: int,
    hard: int,
    attainable: int | None,
    soft_after: int,
    connections: int,
) -> None:
    limits = Limits(limit(soft), limit(hard), attainable)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert raise_open_file_limit(5000) == connections
    assert limits.now[0] == limit(soft_after)


@pytest.mark.parametrize("files", [40, 64, 100, 127])
def test_node_that_could_serve_next_to_nobody_does_not_start(
    monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    limits = Limits(files, files)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    with pytest.raises(ServerError, match=f"may have {files} open files, and needs 128 at least"):
        daemon._within_open_files(OPTIONS)  # noqa: SLF001


def test_files_of_a_divided_store_are_no_room_for_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Or nothing is left for HTTP and the journal once as many clients as may have come."""
    (tmp_path / "coterie-1-of-40.db").touch()
    limits = Limits(400, 400)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    options = replace(OPTIONS, data_dir=tmp_path)
    allowed = daemon._within_open_files(options)  # noqa: SLF001
    assert allowed.settings.max_connections == 400 - 100 - 4 * 40
    limits.now = (287, 287)
    with pytest.raises(ServerError, match="may have 287 open files, and needs 288 at least"):
        daemon._within_open_files(options)  # noqa: SLF001


@pytest.mark.parametrize(("files", "level"), [(128, "warning"), (1024, "warning"), (4096, "info")])
def test_few_connections_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, log: list[MutableMapping[str, Any]], files: int, level: str
) -> None:
    limits = Limits(files, files)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    allowed = daemon._within_open_files(OPTIONS)  # noqa: SLF001
    (told,) = log
    assert told["log_level"] == level
    assert told["connections"] == allowed.settings.max_connections < files


@pytest.mark.parametrize("files", [128, 256, 4096, 21_100, 1_000_000])
def test_each_watcher_may_have_a_connection_to_another_node(
    monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """It is told what the node tells that has its group."""
    limits = Limits(100, files)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    options = replace(OPTIONS, http=Address("127.0.0.1", 0))
    allowed = daemon._within_open_files(options).settings  # noqa: SLF001
    connections = allowed.max_connections + 2 * allowed.http_max_watchers
    assert connections + 100 <= limits.now[0]


class Waiting:
    """A server that waits in its start, as for the lease of a former life."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.has_undone = False

    def __call__(self, _: ServerOptions) -> Waiting:
        """Be the server that is made."""
        return self

    async def reload(self) -> None:
        """Read nothing."""

    async def start(self) -> None:
        """Wait, and undo what was begun."""
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.has_undone = True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.asyncio
async def test_signal_ends_a_start_that_waits(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, log: list[MutableMapping[str, Any]]
) -> None:
    waiting = Waiting()
    monkeypatch.setattr(daemon, "Server", waiting)
    serving = asyncio.create_task(daemon.serve(OPTIONS))
    await waiting.has_begun.wait()
    signal.raise_signal(number)
    await serving
    assert waiting.has_undone
    assert [(line["event"], line["reason"]) for line in log] == [
        ("stopped before it served", number.name)
    ]


@pytest.mark.asyncio
async def test_start_that_is_cancelled_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    monkeypatch.setattr(daemon, "Server", waiting)
    serving = asyncio.create_task(daemon.serve(OPTIONS))
    await waiting.has_begun.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert waiting.has_undone


@pytest.mark.asyncio
async def test_files_are_read_once_more_for_all_who_asked_while_they_were_read() -> None:
    begun: list[asyncio.Event] = []

    async def read() -> None:
        begun.append(asyncio.Event())
        await begun[-1].wait()

    reloading = Reloading(read)
    reloading.open()
    for _ in range(100):
        reloading.begin()
        await asyncio.sleep(0)
    assert len(begun) == 1
    begun[0].set()
    await asyncio.sleep(0)
    assert len(begun) == 2
    begun[1].set()
    await asyncio.sleep(0)
    assert len(begun) == 2


@pytest.mark.asyncio
async def test_files_that_changed_during_the_start_are_read_after_it() -> None:
    read = AsyncMock()
    reloading = Reloading(read)
    reloading.begin()
    await asyncio.sleep(0)
    assert read.await_count == 0
    reloading.open()
    await asyncio.sleep(0)
    assert read.await_count == 1


@pytest.mark.asyncio
async def test_files_are_read_again_after_that_has_failed() -> None:
    read = AsyncMock(side_effect=[OSError, None])
    reloading = Reloading(read)
    reloading.open()
    for _ in range(2):
        reloading.begin()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert read.await_count == 2


@pytest.mark.parametrize(("before", "after"), [(None, "32"), ("7", "7")])
def test_names_that_are_not_found_leave_threads_for_others(
    before: str | None, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of uvloop's four threads, four such names take all, each for half a minute."""
    monkeypatch.setenv("UV_THREADPOOL_SIZE", before or "")
    if before is None:
        monkeypatch.delenv("UV_THREADPOOL_SIZE")
    assert daemon._loop_factory() is not None  # noqa: SLF001  # what `run` begins with
    assert os.environ["UV_THREADPOOL_SIZE"] == after


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """The generations that the collector has looked at, with the daemon's settings."""
    found: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "stop":
            found.append(told["generation"])

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note)
    collect_garbage_rarely()
    yield found
    gc.set_threshold(*before)
    gc.callbacks.remove(note)


def test_what_is_in_use_is_looked_at_once_and_rarely(looks: list[int]) -> None:
    in_use = [[number] for number in range(900_000)]
    assert len(in_use) / 300_000 <= len(looks) <= len(in_use) / 200_000
    # The second generation is looked at with the first, so nothing waits there for a second look.
    assert set(looks) == {1}
