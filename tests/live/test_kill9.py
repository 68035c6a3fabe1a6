"""kill -9 at random moments, while 50 members commit and some of them come and go.

`make kill9` does it 30 times, or as often as KILL9_ROUNDS says.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.live.committing_groups import TOPIC, CommittingGroups, offset_fetch
from tests.live.conftest import SETTINGS, errors_in
from tests.live.daemon import Daemon, suspend
from tests.live.wire import run

pytestmark = pytest.mark.slow

ROUNDS: Final = int(os.environ.get("KILL9_ROUNDS", "3"))
SEED: Final = int(os.environ.get("KILL9_SEED", str(random.randrange(2**32))))
#: With the same data and members; many rounds are several tests.
ROUNDS_PER_TEST: Final = 6
#: Of ten members each.
STEADY_GROUPS: Final = 2
RESTLESS_GROUPS: Final = 3
SIZE: Final = 10
#: How long it takes to form groups, or to find them again; it only bounds a failure.
PATIENCE_S: Final = 60.0


@pytest.mark.parametrize("first", range(0, ROUNDS, ROUNDS_PER_TEST))
def test_kill_9_breaks_no_promise(tmp_path: Path, first: int) -> None:
    """No acknowledged commit is lost, no generation goes back, and steady groups stay as they are.

    Each round kills the daemon at a random moment, sometimes just after it stood still for so long
    that its clock did, too, and sometimes again while it starts.
    """
    print(f"KILL9_SEED={SEED}")  # noqa: T201 - shown when the test fails
    rounds = min(ROUNDS_PER_TEST, ROUNDS - first)
    with Daemon(tmp_path, settings=SETTINGS, topics={TOPIC: SIZE}) as daemon:
        run(_play(daemon, random.Random(SEED + first), rounds))
    assert errors_in(daemon.whole_log()) == []


async def _play(daemon: Daemon, chance: random.Random, rounds: int) -> None:
    committing = CommittingGroups(
        daemon.port, steady=STEADY_GROUPS, restless=RESTLESS_GROUPS, size=SIZE
    )
    committing.come()
    async with asyncio.timeout(PATIENCE_S):
        await committing.until_all_beat(committing.groups, times=3)
    formed = [(group.generation, group.joins) for group in committing.steady]
    churning = asyncio.create_task(committing.churn(chance))
    for _ in range(rounds):
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        await _kill_and_restart(daemon, chance)
        async with asyncio.timeout(PATIENCE_S):
            await committing.until_all_beat(committing.steady, times=2)
            await _check_commits(committing)
        assert [(group.generation, group.joins) for group in committing.steady] == formed
    churning.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await committing.until_all_beat(committing.groups)
    await _check_commits(committing)
    _check_promises(committing)
    # Or the test has shown nothing.
    assert sum(len(group.leaders) for group in committing.restless) > RESTLESS_GROUPS + rounds
    await committing.go()


async def _kill_and_restart(daemon: Daemon, chance: random.Random) -> None:
    while chance.random() < 0.5:
        await asyncio.to_thread(suspend, daemon.process, chance.uniform(0.4, 0.9))
        await asyncio.sleep(chance.choice((0, 0.001, 0.02, 0.3)))
    daemon.kill()
    if chance.random() < 0.3:
        daemon.launch()
        await asyncio.sleep(chance.uniform(0, 1.5))
        daemon.kill()
    await asyncio.to_thread(daemon.start)


async def _check_commits(committing: CommittingGroups) -> None:
    """What is stored is what was acknowledged last, or something sent later."""
    for group in committing.groups:
        acknowledged = dict(group.acknowledged)
        stored = await offset_fetch(group)
        for partition, offset in acknowledged.items():
            found, metadata = stored[partition]
            assert offset <= found <= group.sent[partition], f"{group.name}, {partition}"
            assert metadata == str(found)


def _check_promises(committing: CommittingGroups) -> None:
    for group in committing.groups:
        assert group.broken == [], group.name
        assert group.forgotten == [], group.name
        assert group.acknowledged.keys() == set(range(SIZE)), group.name
