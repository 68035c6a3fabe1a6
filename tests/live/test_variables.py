"""`coterie serve` by variables: its own in place of options, and those of other commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from coterie_cli.options import Variable
from coterie_protocol import messages as m
from tests.live.daemon import HOST, Daemon, eventually
from tests.live.wire import Wire, run
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

#: The daemon's.
OWN: Final = {
    Variable.LISTEN,
    Variable.ADVERTISE,
    Variable.ADVERTISE_HTTP,
    Variable.HTTP_LISTEN,
    Variable.STORE,
    Variable.DATA_DIR,
}
#: Runs the command without the options that these tests' daemons get.
WITHOUT_OPTIONS: Final = ("sh", "-c", 'exec "$0" serve')


def test_variables_stand_in_for_options(tmp_path: Path) -> None:
    port, data, store = free_port(), tmp_path / "data", tmp_path / "groups.db"
    environ: dict[str, str] = {
        Variable.LISTEN: f"{HOST}:{port}",
        Variable.ADVERTISE: "elsewhere:4711",
        Variable.ADVERTISE_HTTP: "elsewhere:4712",
        Variable.HTTP_LISTEN: f"{HOST}:0",
        Variable.STORE: f"sqlite:{store}",
        Variable.DATA_DIR: str(data),
    }
    assert environ.keys() == OWN
    daemon = Daemon(tmp_path, prefix=WITHOUT_OPTIONS, environ=environ)
    daemon.port = port
    with daemon:
        assert run(_told(port)) == ("elsewhere", 4711)
        assert run(_told_of_http(port)) == "elsewhere:4712"
        assert daemon.get("/readyz")
        assert store.exists()
        eventually((data / "journal").exists, "the journal is begun")


def test_variables_hold_several_listeners(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    environ: dict[str, str] = {
        Variable.LISTEN: f"{HOST}:{first}, OUTSIDE://{HOST}:{second}",
        Variable.ADVERTISE: "OUTSIDE://elsewhere:4711",
        Variable.ADVERTISE_HTTP: "OUTSIDE://elsewhere:4712",
        Variable.HTTP_LISTEN: f"{HOST}:0",
        Variable.DATA_DIR: str(tmp_path / "data"),
    }
    daemon = Daemon(tmp_path, prefix=WITHOUT_OPTIONS, environ=environ)
    daemon.port = first
    with daemon:
        assert run(_told(first)) == (HOST, first)
        assert run(_told(second)) == ("elsewhere", 4711)
        assert run(_told_of_http(first)).startswith(f"{HOST}:")
        assert run(_told_of_http(second)) == "elsewhere:4712"


def test_options_override_variables(tmp_path: Path) -> None:
    unused = tmp_path / "unused"
    environ: dict[str, str] = {
        Variable.LISTEN: "no address",
        Variable.HTTP_LISTEN: "no address",
        Variable.DATA_DIR: str(unused),
    }
    with Daemon(tmp_path, environ=environ):
        assert not unused.exists()


def test_variables_of_other_commands_are_ignored(tmp_path: Path) -> None:
    """People have them in their profile, for clients, and start a daemon all the same."""
    others = set(Variable) - OWN
    with Daemon(tmp_path, environ=dict.fromkeys(others, "nonsense")) as daemon:
        assert run(_told(daemon.port)) == (HOST, daemon.port)


async def _told(port: int) -> tuple[str, int]:
    """Where clients are told to find it."""
    wire = await Wire.open(port)
    try:
        async with asyncio.timeout(60):
            answer: m.MetadataResponse = await wire.ask(m.MetadataRequest(topics=()), 5)
    finally:
        wire.close()
    (broker,) = answer.brokers
    return broker.host, broker.port


async def _told_of_http(port: int) -> str:
    """Where clients are told to find HTTP."""
    wire = await Wire.open(port)
    asked = m.ApiVersionsRequest(
        client_software_name="coterie", client_software_version="1", wants_http=True
    )
    try:
        async with asyncio.timeout(60):
            answer: m.ApiVersionsResponse = await wire.ask(asked, 3)
    finally:
        wire.close()
    return answer.http_address
