"""Runs a soak: nodes, members and faults, and gathers what all of them have told."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coterie_client import Admin
from tests.live.daemon import environment
from tests.soak.cluster import Cluster, Database
from tests.soak.faults import fault_plan
from tests.soak.members.recorder import Orders
from tests.soak.plan import MemberPlan, Program, plan_groups
from tests.soak.records import Fault, GroupPlan, Story, read_journals, read_records

__all__ = ["SoakOptions", "run_soak"]

_ROOT: Final = Path(__file__).parents[2]
_FORM_S: Final = 120.0
_END_S: Final = 90.0
TOPIC: Final = "soak"


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """How large a soak is, and how rough."""

    seconds: float = 600.0
    nodes: int = 3
    groups: int = 50
    members: int = 200
    #: From the beginning of one fault to that of the next.
    fault_every_s: float = 10.0
    lease_s: float = 3.0
    #: The share of the groups of which a member leaves and comes back again and again.
    restless: float = 0.2
    #: Between two commits of a member.
    commit_s: float = 1.0
    heartbeat_ms: int = 3_000
    #: After all members have committed, for rebalances that are under way.
    settle_s: float = 4.0
    seed: int = 0

    @property
    def members_per_group(self) -> int:
        """How many members each group has."""
        return max(self.members // self.groups, 1)

    @property
    def partitions(self) -> int:
        """How many partitions the groups share out."""
        return 2 * self.members_per_group


def run_soak(
    folder: Path,
    options: SoakOptions,
    database: Database,
    programs: Sequence[Program],
    tell: Callable[[str], None] = lambda _: None,
) -> Story:
    """Play a soak through, and tell how it goes; its records are in the folder then."""
    chance = random.Random(options.seed)
    libraries = [program.library for program in programs]
    groups, members = plan_groups(
        libraries, options.groups, options.members_per_group, options.restless, chance
    )
    cluster = Cluster(folder, database, options.nodes, options.lease_s, options.partitions)
    with cluster:
        with _hosts(folder, options, cluster, programs, members) as hosts:
            hosts.wait_until_formed()
            time.sleep(options.settle_s)
            tell(f"all groups have formed; faults for {options.seconds:g} s from now on")
            formed_s, formed_ms = time.monotonic(), _wall_ms()
            faults = _play(options, cluster, database, chance, tell)
            hosts.must_run()
            ended_s, ended_ms = time.monotonic(), _wall_ms()
        # One node that knows nothing but what is stored.
        cluster.stop()
        cluster.nodes[0].start()
        final_s = time.monotonic()
        final = asyncio.run(_committed(cluster.nodes[0].address, groups))
        cluster.nodes[0].stop()
    return Story(
        groups=tuple(groups),
        records=tuple(read_records(hosts.records)),
        faults=tuple(faults),
        journal=read_journals(cluster.journals),
        final=final,
        final_s=final_s,
        formed_s=formed_s,
        formed_ms=formed_ms,
        ended_s=ended_s,
        ended_ms=ended_ms,
        lease_s=options.lease_s,
    )


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _play(
    options: SoakOptions,
    cluster: Cluster,
    database: Database,
    chance: random.Random,
    tell: Callable[[str], None],
) -> list[Fault]:
    """One fault after the other until the time is up, and then quiet until all are served."""
    began_s = time.monotonic()
    faults: list[Fault] = []
    plan = fault_plan(chance, options.nodes, options.lease_s, has_database=database.is_server)
    quiet_s = min(options.fault_every_s, options.seconds / 3)
    last_s = began_s + options.seconds - quiet_s
    due_s = time.monotonic() + 1.0
    while due_s < last_s:
        time.sleep(max(due_s - time.monotonic(), 0.0))
        fault = cluster.apply(next(plan))
        faults.append(fault)
        tell(f"{fault.at_s - began_s:7.1f} s  {fault.kind} of {fault.target}")
        due_s = max(due_s + options.fault_every_s, time.monotonic() + options.fault_every_s / 5)
    time.sleep(max(began_s + options.seconds - time.monotonic(), quiet_s))
    return faults


async def _committed(address: str, groups: Sequence[GroupPlan]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    async with Admin(address) as admin:
        for group in groups:
            for (_, partition), stored in (await admin.offsets.fetch(group.name)).items():
                found[group.name, partition] = stored.offset
    return found


class _Hosts:
    """The programs that host members."""

    def __init__(self, members: Sequence[MemberPlan]) -> None:
        self._members = {member.orders.name for member in members}
        self.records: list[Path] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def wait_until_formed(self) -> None:
        """Wait until each member has had a commit acknowledged."""
        deadline_s = time.monotonic() + _FORM_S
        while missing := self._members - self._committing():
            if time.monotonic() > deadline_s:
                kinds = Counter(name.rpartition("-")[0].partition("-")[2] for name in missing)
                raise AssertionError(f"{len(missing)} members don't commit: {dict(kinds)}")
            self.must_run()
            time.sleep(0.5)

    def _committing(self) -> set[str]:
        paths = [path for path in self.records if path.exists()]
        return {record.member for record in read_records(paths) if record.what == "acked"}

    def must_run(self) -> None:
        """Raise an error if a program has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise AssertionError(f"the members of {name} have ended: {process.returncode}")

    def end(self) -> None:
        """Let all members leave."""
        for process in self.processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)

    def kill(self) -> None:
        """Kill those that still run."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


@contextlib.contextmanager
def _hosts(
    folder: Path,
    options: SoakOptions,
    cluster: Cluster,
    programs: Sequence[Program],
    members: Sequence[MemberPlan],
) -> Iterator[_Hosts]:
    hosts = _Hosts(members)
    by_library: dict[str, list[MemberPlan]] = defaultdict(list)
    for member in members:
        by_library[member.library].append(member)
    try:
        for program in programs:
            orders = Orders(
                bootstrap=cluster.bootstrap,
                topic=TOPIC,
                records=folder / f"{program.library}.jsonl",
                members=tuple(member.orders for member in by_library[program.library]),
                commit_s=options.commit_s,
                heartbeat_ms=options.heartbeat_ms,
            )
            path = folder / f"{program.library}.json"
            path.write_text(orders.to_json(), encoding="utf-8")
            hosts.records.append(orders.records)
            with (folder / f"{program.library}.log").open("wb") as log:
                hosts.processes[program.library] = subprocess.Popen(
                    [*program.command, str(path)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=_ROOT,
                    env=environment(),
                )
        yield hosts
        hosts.end()
    finally:
        hosts.kill()
