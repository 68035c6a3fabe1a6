"""examples/counter_service.py behind examples/counter_router.py, killed and suspended."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.examples.program import EXAMPLES, Program
from tests.live.daemon import Daemon, eventually
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

SESSION_S: Final = 2.0
COUNTERS: Final = [f"counter-{number}" for number in range(40)]
CLIENTS: Final = 8


class Deployment:
    """Some services, and a router."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = {
            "group.initial.rebalance.delay.ms": 500,
            "group.min.session.timeout.ms": 1000,
        }
        self.database = folder / "counters.db"
        self.daemon = Daemon(folder / "daemon", settings=self._settings)
        self._programs: list[Program] = []

    def start(self) -> None:
        """Start all of it."""
        self.services = [self.service() for _ in range(3)]
        self.port = free_port()
        http = f"127.0.0.1:{self.daemon.http_port}"
        router = self._run("counter_router.py", "--http", http, "--port", str(self.port))
        eventually(lambda: "routes on port" in router.log, "the router's start")

    def service(self) -> Program:
        """One more service."""
        return self._run(
            "counter_service.py",
            *("--bootstrap", self.daemon.address),
            *("--port", str(free_port())),
            *("--database", str(self.database)),
            *("--session", str(SESSION_S)),
        )

    def _run(self, example: str, *words: str) -> Program:
        self._programs.append(Program(self._folder, example, *words))
        return self._programs[-1]

    def freeze(self, service: Program) -> None:
        """Freeze a service, but not within a transaction: that would hold up all the others."""

        def is_frozen_outside() -> bool:
            service.freeze()
            try:
                with closing(sqlite3.connect(self.database, timeout=0.5)) as db:
                    db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                service.thaw()
                return False
            return True

        eventually(is_frozen_outside, "a moment outside of a transaction")

    def stored(self) -> dict[str, tuple[str, int]]:
        """The writes in the table, by id: the counter and its total after that."""
        with closing(sqlite3.connect(self.database)) as db:
            rows = db.execute("SELECT id, counter, total FROM writes").fetchall()
        return {write_id: (counter, total) for write_id, counter, total in rows}

    def close(self) -> None:
        """End all of it."""
        for each in self._programs:
            each.kill()


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    with deployment.daemon:
        try:
            deployment.start()
            yield deployment
        finally:
            deployment.close()


class Load:
    """Clients that count through the router, and what was accepted of that."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/counters"
        self.accepted: dict[str, tuple[str, int]] = {}
        self.is_over = False

    async def run(self) -> None:
        """Count until it is over."""
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await asyncio.gather(*(self._client(session, number) for number in range(CLIENTS)))

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        chance, count = random.Random(number), 0
        while not self.is_over:
            write_id, counter = f"{number}-{count}", chance.choice(COUNTERS)
            headers = {"Idempotency-Key": write_id}
            async with session.post(f"{self._url}/{counter}", headers=headers) as answer:
                if answer.status == 200:
                    total = (await answer.json())["total"]
                    self.accepted[write_id] = (counter, total)
            count += 1


@pytest.mark.asyncio
async def test_no_accepted_write_is_lost_and_none_counts_twice(deployment: Deployment) -> None:
    load = Load(deployment.port)
    running = asyncio.create_task(load.run())

    async def more(writes: int) -> None:
        """Wait for so many more writes."""
        wanted = len(load.accepted) + writes
        await asyncio.to_thread(
            eventually, lambda: len(load.accepted) >= wanted, f"{wanted} writes", 90
        )

    await more(200)
    for _ in range(3):
        deployment.services.pop(0).kill()
        deployment.services.append(deployment.service())
        await more(200)
    # One that is frozen for longer than its session is a former owner when it wakes up.
    frozen = deployment.services[0]
    await asyncio.to_thread(deployment.freeze, frozen)
    await asyncio.sleep(2 * SESSION_S)
    await more(200)
    frozen.thaw()
    await more(200)
    load.is_over = True
    await running
    stored = deployment.stored()
    assert {each: stored.get(each) for each in load.accepted} == load.accepted
    counts = Counter(counter for counter, _ in stored.values())
    totals = sorted((counter, total) for counter, total in stored.values())
    expected = sorted((c, number) for c, count in counts.items() for number in range(1, count + 1))
    assert totals == expected, "a write has counted twice, or not at all"


@pytest.mark.asyncio
async def test_write_without_an_id_is_refused(deployment: Deployment) -> None:
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{deployment.port}/counters/apples"
        async with session.post(url) as answer:
            assert answer.status == 400


# -- what each of them refuses ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def program() -> Any:
    """The service as a module."""
    spec = importlib.util.spec_from_file_location(
        "counter_service", EXAMPLES / "counter_service.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def test_table_refuses_writes_of_a_former_owner(program: Any, tmp_path: Path) -> None:
    with closing(program.Table(tmp_path / "counters.db")) as table:
        table.take_over(3, 5)
        assert table.write(3, 5, "a", "apples", 1) == 1
        assert table.take_over(3, 9) == {"apples": 1}
        with pytest.raises(program.FormerOwnerError, match="token above 5"):
            table.write(3, 5, "b", "apples", 2)
        assert table.write(3, 9, "b", "apples", 2) == 2


def test_table_takes_each_write_once(program: Any, tmp_path: Path) -> None:
    with closing(program.Table(tmp_path / "counters.db")) as table:
        assert table.write(3, 5, "a", "apples", 1) == 1
        assert table.write(3, 5, "a", "apples", 2) == 1
        assert table.take_over(3, 5) == {"apples": 1}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("owned", "sent", "status"),
    [(7, 7, 200), (7, 6, 200), (7, 8, 421), (None, 7, 421)],
    ids=["the owner's", "an earlier one", "a later owner's", "owns nothing"],
)
async def test_process_refuses_what_is_meant_for_another(
    program: Any, tmp_path: Path, owned: int | None, sent: int, status: int
) -> None:
    with closing(program.Table(tmp_path / "counters.db")) as table:
        service, app = program.Service(table), web.Application()
        if owned is not None:
            shard = program.Shard(owned, {})
            service.shards = dict.fromkeys(range(program.SHARDS), shard)
        app.router.add_post("/counters/{counter}", service.count)
        async with TestClient(TestServer(app)) as client:
            headers = {"Idempotency-Key": "1", program.HEADER: str(sent)}
            answer = await client.post("/counters/apples", headers=headers)
            assert answer.status == status
