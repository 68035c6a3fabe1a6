# noqa: INP001 - a script's other half, not a package
"""The coordinators of `compose.ha.yaml` take over from each other, and members don't notice.

Members of a group commit all the time, in containers, while the coordinator that has their group
is killed, PostgreSQL is started anew, and a coordinator is stopped.  Each time they have to go on
in their generation, with the partitions that they had, within the time that is promised.

A member's next commit would hide that its last one was lost.  So another client commits for each
partition of a long topic once, at the same coordinator, and in the end all that was acknowledged
has to be there.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from engine import ContainerError, Engine, expect, project, say, wait
from nodes import FILE, NODES, Nodes, free_ports

__all__ = ["fail_over"]

GROUP: Final = "members"
#: As in the compose file.
TOPIC: Final = "shards"
SHARDS: Final = 12
_MEMBERS: Final = ("first", "second", "third")
_ONCE_TOPIC: Final = "once"
_ONCE_PARTITIONS: Final = 10_000
_BOOTSTRAP: Final = [f"coordinator-{node}:9092" for node in NODES]
#: As `shard.lease.ms` is by default.
_LEASE_S: Final = 3.0
#: For how long no commit may be acknowledged.  Machines that test have much else to do.
_KILLED_S: Final = _LEASE_S + 3.0
_DATABASE_S: Final = 10.0
_STOPPED_S: Final = 3.0
#: With fewer, it may be that none was under way when something happened.
_ONCE_MIN: Final = 300
#: What a member tells when it has, or has to let go of, a partition.
_MOVES: Final = ("start", "end", "revoking", "lost", "over")


def fail_over(engine: Engine, postgres: str) -> None:
    """Show that members go on; raise if they don't."""
    ports = free_ports()
    variables = {**ports, "POSTGRES_IMAGE": postgres}
    # What a run that was broken off has left.
    for name in (*_MEMBERS, _ONCE_TOPIC):
        _remove(engine, name)
    with contextlib.suppress(ContainerError):
        engine.take_down(FILE, **variables)
    began = time.monotonic()
    try:
        engine.composed(FILE, "up", "--no-build", "--detach", **variables)
        _Run(engine, Nodes(engine, ports)).run()
    except ContainerError:
        for service in ("database", "migrate", *(f"coordinator-{node}" for node in NODES)):
            for container in engine.containers(FILE, service):
                say(f"\n# {service}\n{engine.logs(container, whole=True)}")
        raise
    finally:
        for name in (*_MEMBERS, _ONCE_TOPIC):
            _remove(engine, name)
        engine.take_down(FILE, **variables)
    say(f"All of it is so ({time.monotonic() - began:.0f} s).")


def _container(name: str) -> str:
    return f"{project(FILE)}-{name}"


def _remove(engine: Engine, name: str) -> None:
    with contextlib.suppress(ContainerError):
        engine.run("rm", "--force", "--volumes", _container(name))


class _Run:
    """What happens to the coordinators, and what their clients tell of it."""

    def __init__(self, engine: Engine, nodes: Nodes) -> None:
        self._engine = engine
        self._nodes = nodes

    def run(self) -> None:
        """Do it all."""
        say("\n# Three coordinators and PostgreSQL")
        for node in NODES:
            wait(lambda node=node: self._nodes.is_ready(node), f"coordinator {node} is ready")  # type: ignore[misc]
        wait(self._nodes.share, "this machine reaches each, and each has groups")
        self._check_secrets()
        self._start_members()
        group = self._commit_once()
        self._kill_coordinator()
        self._restart_database()
        self._stop_coordinator()
        self._check_commits(group)

    # -- clients -------------------------------------------------------------------------------

    def _start(self, name: str, program: str, *words: str) -> None:
        self._engine.run(
            *("run", "--detach", "--interactive", "--no-healthcheck"),
            *("--name", _container(name), "--network", f"{project(FILE)}_default"),
            *("--entrypoint", "python3", "coterie-tests", "-m", f"tests.live.programs.{program}"),
            *words,
        )

    def _start_members(self) -> None:
        say("\n# Members of a group, each of which comes in by another coordinator")
        for number, name in enumerate(_MEMBERS):
            bootstrap = [*_BOOTSTRAP[number:], *_BOOTSTRAP[:number]]
            self._start(
                name,
                "coterie_member",
                *(f"bootstrap={','.join(bootstrap)}", f"group={GROUP}", f"topic={TOPIC}"),
                *(f"client={name}", "assignor=cooperative-sticky", "session_ms=30000"),
                *("heartbeat_ms=1000", "rebalance_ms=30000"),
            )
        wait(self._is_settled, "they share the partitions, and commit for each")
        other = next(node for node in NODES if node != self._owner())
        say(self._ask(other, "groups", "why", GROUP, "--last", "1"))

    def _commit_once(self) -> str:
        """Commit for partition after partition at the coordinator of the members."""
        owner = self._owner()
        group = next(
            name
            for name in (f"once-{number}" for number in itertools.count())
            if self._nodes.coordinator_of(name, owner) == owner
        )
        say(self._ask(owner, "topics", "create", _ONCE_TOPIC, str(_ONCE_PARTITIONS)))
        self._start(
            _ONCE_TOPIC,
            "commit_once",
            *(f"bootstrap={','.join(_BOOTSTRAP)}", f"group={group}", f"topic={_ONCE_TOPIC}"),
            f"partitions={_ONCE_PARTITIONS}",
        )
        wait(self._committed_once, "commits that are made once are acknowledged")
        return group

    def _ask(self, node: int, *words: str) -> str:
        return self._engine.run("exec", self._nodes.container(node), "coterie", *words)

    def _told(self) -> list[dict[str, Any]]:
        """What the members have told, by time."""
        told = [
            {"name": name} | json.loads(line)
            for name in _MEMBERS
            for line in self._engine.logs(_container(name)).splitlines()
            if line.endswith("}")
        ]
        return sorted(told, key=lambda each: float(each["at"]))

    def _acked(self) -> dict[int, list[dict[str, Any]]]:
        """The acknowledged commits of the members, by partition."""
        acked: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for each in self._told():
            if each["what"] == "acked":
                acked[each["partition"]].append(each)
        return acked

    def _committed_once(self) -> dict[int, int]:
        """The acknowledged commits of the client that makes each only once."""
        lines = self._engine.logs(_container(_ONCE_TOPIC)).splitlines()
        words = [line.split() for line in lines[: len(lines) - 1]]  # the last may not be whole
        return {int(each[1]): int(each[2]) for each in words if each[0] == "acked"}

    def _states(self) -> list[dict[str, Any]]:
        """How each member stands."""
        states = {each["name"]: each for each in self._told() if each["what"] == "state"}
        return list(states.values())

    def _is_settled(self) -> bool:
        settled = [each for each in self._states() if each["is_settled"]]
        owned = sum(each["owned"] for each in settled)
        return len(settled) == len(_MEMBERS) and owned == SHARDS == len(self._acked())

    def _owner(self) -> int:
        """The coordinator of the members, of which all that answer say the same."""
        told = {self._nodes.coordinator_of(GROUP, node) for node in NODES} - {None}
        if len(told) != 1:
            raise ContainerError(f"The coordinators don't agree on who has {GROUP}: {told}.")
        (owner,) = told
        assert owner is not None
        return owner

    # -- what happens --------------------------------------------------------------------------

    def _kill_coordinator(self) -> None:
        owner = self._owner()
        say(f"\n# Coordinator {owner}, which has the group, is killed")
        container = self._nodes.container(owner)
        self._carry_on(_KILLED_S, lambda: self._engine.run("kill", "--signal", "KILL", container))
        expect(self._owner_is_another(owner), "another coordinator has the group")
        self._come_back(owner)

    def _restart_database(self) -> None:
        say("\n# PostgreSQL is started anew")
        (database,) = self._engine.containers(FILE, "database")
        began = [self._began(node) for node in NODES]
        self._carry_on(_DATABASE_S, lambda: self._engine.run("restart", database))
        expect([self._began(node) for node in NODES] == began, "no coordinator has ended")
        wait(lambda: all(map(self._nodes.is_ready, NODES)), "all of them are ready")

    def _stop_coordinator(self) -> None:
        owner = self._owner()
        say(f"\n# Coordinator {owner}, which has the group, is stopped")
        container = self._nodes.container(owner)
        self._carry_on(_STOPPED_S, lambda: self._engine.stop(container))
        expect(self._owner_is_another(owner), "another coordinator has the group")
        self._come_back(owner)

    def _come_back(self, node: int) -> None:
        def start() -> None:
            self._engine.run("start", self._nodes.container(node))
            wait(lambda: self._nodes.is_ready(node), f"coordinator {node} is back")
            wait(self._nodes.share, "it has its share of the groups")

        self._carry_on(_STOPPED_S, start)

    def _owner_is_another(self, than: int) -> bool:
        others = [node for node in NODES if node != than]
        return all(self._nodes.coordinator_of(GROUP, node) in others for node in others)

    def _began(self, node: int) -> str:
        started = ("inspect", self._nodes.container(node), "--format", "{{.State.StartedAt}}")
        return self._engine.run(*started)

    # -- what has to hold ----------------------------------------------------------------------

    def _carry_on(self, limit_s: float, happen: Callable[[], object]) -> None:
        """Let something happen, of which the members must notice only that commits take longer."""
        generation = self._generation()
        began = time.monotonic()
        happen()
        over = time.monotonic()

        def go_on() -> bool:
            acked = self._acked().values()
            return len(acked) == SHARDS and all(each[-1]["at"] > over for each in acked)

        wait(go_on, "the members commit for all partitions")
        gap_s = max(_longest_gap(each, began) for each in self._acked().values())
        expect(gap_s < limit_s, f"commits stood still for {gap_s:.1f} s, less than {limit_s:g}")
        moves = [each for each in self._told() if each["at"] > began and each["what"] in _MOVES]
        if moves:
            say(f"  {moves}")
        expect(not moves, "no partition began, ended or was let go of")
        expect(self._generation() == generation, f"the generation is {generation} as before")

    def _generation(self) -> int:
        """The generation of the members, and of the group."""
        told = {each["generation"] for each in self._states()}
        shown = self._nodes.group(self._owner(), GROUP)
        if shown.get("state") != "Stable" or told != {shown["generation"]}:
            raise ContainerError(f"The group is {shown}, and its members are in {told}.")
        generation: int = shown["generation"]
        return generation

    def _check_commits(self, group: str) -> None:
        say("\n# What was acknowledged")
        once = self._committed_once()
        acked = {partition: each[-1]["offset"] for partition, each in self._acked().items()}
        errors = self._engine.logs(_container(_ONCE_TOPIC)).count("error ")
        say(f"  {len(once)} commits that were made once, {errors} attempts that failed")
        stored = self._stored(group)
        lost = [partition for partition, each in once.items() if stored.get(partition) != each]
        expect(not lost, f"none of these is lost{': ' * bool(lost)}{str(lost)[1:-1]}")
        stored = self._stored(GROUP)
        behind = [each for each, offset in acked.items() if stored.get(each, -1) < offset]
        expect(not behind, "no commit of a member is lost")
        expect(len(once) > _ONCE_MIN, f"there were more than {_ONCE_MIN} commits")

    def _stored(self, group: str) -> dict[int, int]:
        shown = json.loads(self._ask(self._owner(), "offsets", "show", group, "--json"))
        # By what it is for, such as "shards[3]".
        return {
            int(of.rpartition("[")[2].rstrip("]")): each["offset"] for of, each in shown.items()
        }

    def _check_secrets(self) -> None:
        """No command line, variable or log has a password."""
        (database,) = self._engine.containers(FILE, "database")
        roles = ("postgres", "coterie_migrate", "coterie_node")
        passwords = [
            self._engine.run("exec", database, "cat", f"/run/passwords/{role}") for role in roles
        ]
        services = ("passwords", "database", "migrate", *(f"coordinator-{node}" for node in NODES))
        containers = [each for name in services for each in self._engine.containers(FILE, name)]
        shown = "\n".join(
            self._engine.run("inspect", each) + self._engine.logs(each, whole=True)
            for each in containers
        )
        expect(len({*passwords, ""}) == len(roles) + 1, "each role has a password of its own")
        expect(
            not any(each in shown for each in passwords),
            "no command line, variable or log shows a password",
        )


def _longest_gap(acked: list[dict[str, Any]], since: float) -> float:
    """The longest time between two commits, of those that ended since a moment."""
    pairs = itertools.pairwise(float(each["at"]) for each in acked)
    return max((after - before for before, after in pairs if after > since), default=0.0)
