"""What every test runs under."""

import gc
import os
import random
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import structlog

from tests.support.collecting import begin_elsewhere
from tests.support.left_open import LeftOpen
from tests.support.long_first import rank, starts_processes
from tests.support.postgres_server import PostgresServer, missing, running_server
from tests.support.profiles import PROFILE, load_profile

load_profile()


#: The first seed of new simulated runs, in all processes of a test run.
SIM_SEED = "SIMULATOR_SEED"


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed, unless it is given, and let Ctrl-C reach the programs that tests start.

    A job that a shell runs in the background has SIGINT ignored, and so has what it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(SIM_SEED, str(random.SystemRandom().randrange(10**7, 10**10)))
    config.pluginmanager.register(LeftOpen())
    begin_elsewhere(config)


def pytest_report_header() -> list[str]:
    """Tell what is different in the next run, also if all goes well."""
    return [
        f"simulator: fresh runs from seed {os.environ[SIM_SEED]} on ({SIM_SEED} sets it)",
        f"examples: the {PROFILE} profile (CI=true in the environment takes the long one)",
    ]


@pytest.fixture(autouse=True)
def asyncio_in_debug_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have loops of unit tests complain of calls from other threads, and tell where tasks began.

    What is run as a whole has it off, as in production: it takes several times as long with it.
    """
    name = "PYTHONASYNCIODEBUG"
    if starts_processes(request.node.nodeid):
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, "1")


@pytest.fixture(autouse=True)
def logs_as_unconfigured() -> Iterator[None]:
    """Undo what a test did to structlog: even capturing its lines leaves it configured."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="session")
def planted_bug() -> Iterator[None]:
    """Plant the bug that PLANTED_BUG names, for the tests to find; mostly there is none."""
    name = os.environ.get("PLANTED_BUG")
    if name is None:
        yield
        return
    from tests.planted.bugs import BUGS  # noqa: PLC0415  # it imports all that is tested

    with next(bug for bug in BUGS if bug.name == name).plant():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with running_server() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left alone with it in the end."""
    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Spare the garbage collector the tests themselves, which stay to the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_sessionfinish() -> None:
    """Have all be collected again: modules in C complain of what outlives them."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """More processes than there are processors.

    For a third of the time, quick tests wait, and slow ones for half of it.
    """
    return (yield) + (1 if "not slow" in config.option.markexpr else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Say which process runs what."""
    from tests.support.by_file import ByFile  # noqa: PLC0415  # there may be no xdist

    return ByFile(config, log)
