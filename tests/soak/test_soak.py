"""Short soaks of real coordinators; `make soak` runs long ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.checks import breaches
from tests.soak.cluster import PostgresDatabase, SqliteFile
from tests.soak.plan import programs
from tests.soak.records import Story
from tests.soak.soak import SoakOptions, run_soak
from tests.soak.summary import summary
from tests.support.postgres_server import missing, running_server

#: One fault, with members that start quickly.
BRIEF = SoakOptions(
    seconds=3.5,
    nodes=2,
    groups=4,
    members=4,
    fault_every_s=10.0,
    lease_s=1.0,
    restless=0.0,
    commit_s=0.1,
    settle_s=0.5,
)
SHORT = SoakOptions(seconds=30.0, groups=12, members=36, fault_every_s=5.0, commit_s=0.3)


def assert_all_is_well(story: Story) -> None:
    found = breaches(story)
    assert not any(found.values()), summary(story, found)
    # Or it has shown nothing.
    assert story.faults
    assert all(any(r.what == "acked" for r in story.records if r.member == m) for m in _all(story))


def _all(story: Story) -> list[str]:
    return [member for group in story.groups for member in group.libraries]


def test_brief_soak(tmp_path: Path) -> None:
    found, _ = programs(["coterie"])
    assert_all_is_well(run_soak(tmp_path, BRIEF, SqliteFile(tmp_path), found))


@pytest.mark.slow
def test_short_soak_on_sqlite(tmp_path: Path) -> None:
    found, _ = programs(["coterie", "kafka-python"])
    assert_all_is_well(
        run_soak(tmp_path, replace(SHORT, seconds=15.0), SqliteFile(tmp_path), found)
    )


@pytest.mark.slow
def test_short_soak_on_postgres(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    found, _ = programs(["coterie", "kafka-python"])
    with running_server({"fsync": "on"}) as server:
        assert_all_is_well(run_soak(tmp_path, SHORT, PostgresDatabase(server), found))
