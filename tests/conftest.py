"""What every test runs under."""

import os
import random
from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.support.profiles import PROFILE, load_profile

load_profile()


#: Where simulated runs that nobody has seen before begin, in all processes of a test run.
SIM_SEED = "SIMULATOR_SEED"


def pytest_configure() -> None:
    """Draw it, unless it is to be that of another test run."""
    os.environ.setdefault(SIM_SEED, str(random.SystemRandom().randrange(10**7, 10**10)))


def pytest_report_header() -> list[str]:
    """Tell what is different in the next run, also if all goes well."""
    return [
        f"simulator: fresh runs from seed {os.environ[SIM_SEED]} on ({SIM_SEED} sets it)",
        f"examples: the {PROFILE} profile (CI=true in the environment takes the long one)",
    ]


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


def _needs_spark(nodeid: str) -> bool:
    return nodeid.startswith("tests/pipeline/") and "/kafka_logs/" not in nodeid


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what keeps one process busy for longest, so that others do not wait for it."""
    items.sort(key=lambda item: not _needs_spark(item.nodeid))


class _ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file go to one process, and so do all files of the pipeline: they share Spark.

    To start it takes longer than most of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if _needs_spark(nodeid) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Say who runs what."""
    return _ByFile(config, log)
