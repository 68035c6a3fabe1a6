"""The lifecycle of a client of any library: joining, sharing, deaths, and two restarts.

All clients go through it at the same time, each with a group of its own, because most of it is
waiting; the daemon is restarted under all of them at once. What each of them saw is recorded, and
the tests look at it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.live.daemon import Daemon, eventually
from tests.live.group import ALL, LiveGroup
from tests.live.member import Client, MemberError, MemberProcess

__all__ = ["GroupView", "Lifecycle", "run_lifecycles"]

T = TypeVar("T")

#: A victim is declared dead soon after its death, and only it can be thought dead by mistake.
_VICTIM_SESSION_MS: Final = 3000
_RESTARTS: Final = (signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and its members at one moment."""

    generation: int
    #: What each member says it has, by its name.
    owned: dict[str, frozenset[int]]
    #: The ids of the members.
    ids: frozenset[str]
    #: The causes of its rebalances, also of those before a restart, the first one first.
    causes: tuple[str, ...]


@dataclass(slots=True)
class Lifecycle:
    """What one client saw, by the names of the phases."""

    client: Client
    views: dict[str, GroupView] = field(default_factory=dict)
    #: What else a phase recorded.
    notes: dict[str, Any] = field(default_factory=dict)
    #: Why it could not go on.
    failure: BaseException | None = None

    def view(self, phase: str) -> GroupView:
        """The group at the end of a phase; raises what failed before that."""
        if phase not in self.views and self.failure is not None:
            raise self.failure
        return self.views[phase]


class _Run:
    """Takes one client through the phases."""

    def __init__(self, client: Client, daemon: Daemon, folder: Path) -> None:
        self.lifecycle = Lifecycle(client)
        self.live_group = LiveGroup(daemon, f"life-of-{client.name}", folder)
        self._client = client

    def _start(self, name: str, **options: Any) -> MemberProcess:
        return self.live_group.start(self._client, f"{self._client.name}-{name}", **options)

    def _settle(self, phase: str, *members: MemberProcess) -> None:
        """Wait until the group has settled, and record it."""
        group = self.live_group.settle(*members)
        self.lifecycle.views[phase] = GroupView(
            generation=group["generation"],
            owned={member.name: frozenset(member.owned) for member in members},
            ids=frozenset(member["member"] for member in group["members"]),
            causes=tuple(each["cause"] for each in reversed(group["rebalances"])),
        )

    # -- the phases --------------------------------------------------------------------------

    def until_the_first_restart(self) -> None:
        """One member, a second one, its death, a third one."""
        first = self._start("first")
        self._settle("alone", first)
        first.commit({partition: 100 + partition for partition in ALL})
        self.lifecycle.notes["committed"] = first.offsets("committed")
        before = len(first.lines)
        second = self._start("second", session_ms=_VICTIM_SESSION_MS)
        self._settle("shared", first, second)
        self.lifecycle.notes["given up when shared"] = first.given_up(before)
        command = "positions" if self._client.tells_positions else "committed"
        self.lifecycle.notes["the second reads on at"] = second.offsets(command)
        # Or its session would end in a rebalance that another member has begun.
        self.live_group.calm(first, second)
        second.die()
        self._settle("after a death", first)
        third = self._start("third")
        self.live_group.calm(first, third)
        self._settle("before SIGTERM", first, third)

    def after_restart(self, number: signal.Signals) -> None:
        """Have each member commit again, for which it has to find the daemon again."""
        first, _, third = self.live_group.members
        wanted = {"SIGTERM": 200, "SIGKILL": 300}[number.name]
        found: dict[int, int] = {}
        for member in (first, third):
            found |= _retry(partial(_committed, member))
            offsets = {partition: wanted + partition for partition in member.owned}
            _retry(partial(member.commit, offsets))
        self.lifecycle.notes[f"committed, found after {number.name}"] = found
        self._wait_for_heartbeats()
        self._settle(f"after {number.name}", first, third)

    def _wait_for_heartbeats(self) -> None:
        """Wait until each member was heard of again, so that it had every chance to rejoin."""
        seen = self._last_seen()
        eventually(
            lambda: all(at > seen.get(member, 0) for member, at in self._last_seen().items()),
            f"{self._client}: heartbeats after the restart",
        )

    def _last_seen(self) -> dict[str, int]:
        members = self.live_group.look()["members"]
        return {member["member"]: member["last_seen_ms"] for member in members}

    def until_the_end(self) -> None:
        """The first leaves in good order."""
        first, _, third = self.live_group.members
        first.close()
        self._settle("after a farewell", third)


def _committed(member: MemberProcess) -> dict[int, int]:
    """The committed offsets of all partitions of a member; it may own none for the moment."""
    offsets = member.offsets("committed")
    if not offsets or offsets.keys() != member.owned:
        raise MemberError(f"{member.name} has {member.owned} and tells {offsets}")
    return offsets


def _retry(step: Callable[[], T], timeout_s: float = 60.0) -> T:
    """Try until it works: a request during a restart may fail."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return step()
        except MemberError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def run_lifecycles(clients: Sequence[Client], daemon: Daemon, folder: Path) -> dict[str, Lifecycle]:
    """Take all clients through the lifecycle on one daemon; return what each of them saw."""
    lives = [_Run(client, daemon, folder) for client in clients]
    with ExitStack() as live_groups:
        for life in lives:
            live_groups.enter_context(life.live_group)
        _together(lives, _Run.until_the_first_restart)
        for number in _RESTARTS:
            daemon.restart(number)
            _together(lives, partial(_Run.after_restart, number=number))
        _together(lives, _Run.until_the_end)
    return {life.lifecycle.client.name: life.lifecycle for life in lives}


def _together(lives: Sequence[_Run], phase: Callable[[_Run], None]) -> None:
    """Run a phase for all clients that got so far, each in a thread."""

    def run(life: _Run) -> None:
        try:
            phase(life)
        except BaseException as error:  # noqa: BLE001 - the tests of this client raise it
            life.lifecycle.failure = error

    threads = [
        threading.Thread(target=run, args=(life,))
        for life in lives
        if life.lifecycle.failure is None
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
