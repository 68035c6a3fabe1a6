"""What a client of any library lives through: joining, sharing, deaths, and two restarts.

All clients live through it at the same time, each with a group of its own, because most of it is
waiting; the daemon is restarted under all of them at once.  What each of them saw is kept, and the
tests look at it.
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

from tests.live.crew import ALL, Crew
from tests.live.daemon import Daemon, eventually
from tests.live.member import Client, MemberError, MemberProcess

__all__ = ["Story", "Visit", "live_through"]

T = TypeVar("T")

#: A victim is declared dead soon after its death, and only it can be thought dead by mistake.
_VICTIM_SESSION_MS: Final = 3000
_RESTARTS: Final = (signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Visit:
    """A look at a group and its members at one moment."""

    generation: int
    #: What each member says it has, by its name.
    owned: dict[str, frozenset[int]]
    #: The ids of the members.
    ids: frozenset[str]
    #: The causes of its rebalances since the daemon started, the first one first.
    causes: tuple[str, ...]


@dataclass(slots=True)
class Story:
    """What one client has lived through, by the names of the chapters."""

    client: Client
    visits: dict[str, Visit] = field(default_factory=dict)
    #: What a chapter noted besides.
    notes: dict[str, Any] = field(default_factory=dict)
    #: Why it could not go on.
    failure: BaseException | None = None

    def visit(self, chapter: str) -> Visit:
        """The group at the end of a chapter; raises what kept the client from getting there."""
        if chapter not in self.visits and self.failure is not None:
            raise self.failure
        return self.visits[chapter]


class _Life:
    """One client's way through the story."""

    def __init__(self, client: Client, daemon: Daemon, folder: Path) -> None:
        self.story = Story(client)
        self.crew = Crew(daemon, f"life-of-{client.name}", folder)
        self._client = client

    def _start(self, name: str, **options: Any) -> MemberProcess:
        return self.crew.start(self._client, f"{self._client.name}-{name}", **options)

    def _settle(self, chapter: str, *members: MemberProcess) -> None:
        """Wait until a chapter has come to its end and keep what is to be seen then."""
        group = self.crew.settle(*members)
        self.story.visits[chapter] = Visit(
            generation=group["generation"],
            owned={member.name: frozenset(member.owned) for member in members},
            ids=frozenset(member["member"] for member in group["members"]),
            causes=tuple(each["cause"] for each in reversed(group["rebalances"])),
        )

    # -- the chapters --------------------------------------------------------------------------

    def until_the_first_restart(self) -> None:
        """Alone, with a second one, alone again after its death, with a third."""
        first = self._start("first")
        self._settle("alone", first)
        first.commit({partition: 100 + partition for partition in ALL})
        self.story.notes["committed"] = first.offsets("committed")
        before = len(first.lines)
        second = self._start("second", session_ms=_VICTIM_SESSION_MS)
        self._settle("shared", first, second)
        self.story.notes["given up when shared"] = first.given_up(before)
        command = "positions" if self._client.tells_positions else "committed"
        self.story.notes["the second reads on at"] = second.offsets(command)
        # Or its session would end in a round that somebody else has begun.
        self.crew.calm(first, second)
        second.die()
        self._settle("after a death", first)
        third = self._start("third")
        self.crew.calm(first, third)
        self._settle("before SIGTERM", first, third)

    def after_restart(self, number: signal.Signals) -> None:
        """Each commits once more, which needs it to have found the daemon again."""
        first, _, third = self.crew.members
        wanted = {"SIGTERM": 200, "SIGKILL": 300}[number.name]
        found: dict[int, int] = {}
        for member in (first, third):
            found |= _insist(partial(_committed, member))
            offsets = {partition: wanted + partition for partition in member.owned}
            _insist(partial(member.commit, offsets))
        self.story.notes[f"committed, found after {number.name}"] = found
        self._wait_for_heartbeats()
        self._settle(f"after {number.name}", first, third)

    def _wait_for_heartbeats(self) -> None:
        """Until each member was heard of anew, so that it had every chance to start over."""
        seen = self._last_seen()
        eventually(
            lambda: all(at > seen.get(member, 0) for member, at in self._last_seen().items()),
            f"{self._client}: heartbeats after the restart",
        )

    def _last_seen(self) -> dict[str, int]:
        members = self.crew.look()["members"]
        return {member["member"]: member["last_seen_ms"] for member in members}

    def until_the_end(self) -> None:
        """The first leaves in good order."""
        first, _, third = self.crew.members
        first.close()
        self._settle("after a farewell", third)


def _committed(member: MemberProcess) -> dict[int, int]:
    """What is committed for all that a member has; it may have nothing for the moment."""
    offsets = member.offsets("committed")
    if not offsets or offsets.keys() != member.owned:
        raise MemberError(f"{member.name} has {member.owned} and tells {offsets}")
    return offsets


def _insist(step: Callable[[], T], timeout_s: float = 30.0) -> T:
    """Try until it works: a commit or a question that meets a restart may fail."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return step()
        except MemberError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def live_through(clients: Sequence[Client], daemon: Daemon, folder: Path) -> dict[str, Story]:
    """Let all clients live through the story with one daemon; return what each of them saw."""
    lives = [_Life(client, daemon, folder) for client in clients]
    with ExitStack() as crews:
        for life in lives:
            crews.enter_context(life.crew)
        _together(lives, _Life.until_the_first_restart)
        for number in _RESTARTS:
            daemon.restart(number)
            _together(lives, partial(_Life.after_restart, number=number))
        _together(lives, _Life.until_the_end)
    return {life.story.client.name: life.story for life in lives}


def _together(lives: Sequence[_Life], chapter: Callable[[_Life], None]) -> None:
    """Run a chapter for all who got so far, each in a thread."""

    def run(life: _Life) -> None:
        try:
            chapter(life)
        except BaseException as error:  # noqa: BLE001 - the tests of this client raise it
            life.story.failure = error

    threads = [
        threading.Thread(target=run, args=(life,)) for life in lives if life.story.failure is None
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
