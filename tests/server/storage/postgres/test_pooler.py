"""A store behind PgBouncer, which gives each transaction another session of the server."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie_server.storage.abc import FencedError
from coterie_server.storage.postgres import PostgresStore
from tests.support.ports import free_port
from tests.support.postgres_server import (
    PostgresServer,
    as_user,
    give_to_user,
    server_folder,
)
from tests.support.processes import killed_on_error

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000
START_S = 60

_CONFIGURATION = """
[databases]
postgres = host=127.0.0.1 port={server} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
server_round_robin = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program() -> Path | None:
    """PgBouncer, which `PGBOUNCER` may name."""
    named = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    return Path(named) if Path(named).exists() else None


@pytest.fixture(params=[2, 7])
def pooler(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[int]:
    """The port of a PgBouncer with a few sessions, fewer or more than a store has connections."""
    found = program()
    if found is None:
        pytest.skip("there is no pgbouncer: Debian's package of that name has it")
    with server_folder() as folder:
        port = free_port()
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(
                server=postgres.port, port=port, folder=folder, sessions=request.param
            )
        )
        give_to_user(folder)
        with killed_on_error(
            subprocess.Popen([found, configuration], cwd=folder, **as_user())
        ) as process:
            await_port(port)
            yield port
            process.terminate()


def await_port(port: int) -> None:
    """Wait until connections are taken."""
    until = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.02)
        else:
            return


async def test_two_nodes_share_a_pool(pooler: int, postgres: PostgresServer, schema: str) -> None:
    url = postgres.url(pooler, schema=schema)
    async with PostgresStore(url) as store, PostgresStore(url) as other:
        await asyncio.gather(store.reserve("ann", TTL_MS), other.reserve("bob", TTL_MS))
        anns, bobs = await asyncio.gather(
            store.claim(range(10), "ann", TTL_MS), other.claim(range(10, 20), "bob", TTL_MS)
        )
        for number in range(20):
            value = b"%d" % number
            kept = [
                *(store.append(lease, [(b"a", value), (b"b", None)]) for lease in anns),
                *(other.append(lease, [(b"a", value), (b"c", value)]) for lease in bobs),
            ]
            renewed = asyncio.gather(
                store.renew("ann", b"", anns, TTL_MS), other.renew("bob", b"", bobs, TTL_MS)
            )
            read = asyncio.gather(*(store.load(shard) for shard in range(20)))
            await asyncio.gather(store.survey(), read, *kept)
            anns, bobs = await renewed
            assert len(anns) == len(bobs) == 10
        assert await other.load(3) == [(b"a", b"19")]
        await store.release(anns)
        assert len(await other.claim(range(10), "bob", TTL_MS)) == 10
        with pytest.raises(FencedError):
            await store.append(anns[0], [(b"a", b"late")])
        assert await store.agree("shards", "50") == await other.agree("shards", "7") == "50"
