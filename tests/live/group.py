"""A group on a daemon of the tests: its members, and how the daemon shows it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, Self

from tests.live.daemon import Daemon
from tests.live.member import Client, MemberProcess
from tests.live.programs.lines import Options

__all__ = ["ALL", "TOPIC", "LiveGroup"]

TOPIC: Final = "work"
#: The partitions of the topic.
ALL: Final = frozenset(range(6))

_SETTLE_S: Final = 60.0
_POLL_S: Final = 0.1
_CALM_S: Final = 1.0


class LiveGroup:
    """Starts members of a group; as a context manager, it kills them at the end."""

    def __init__(
        self,
        daemon: Daemon,
        group: str,
        folder: Path,
        *,
        topic: str = TOPIC,
        partitions: frozenset[int] = ALL,
    ) -> None:
        """Start none yet; `partitions` are those of the topic."""
        self.daemon = daemon
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.members: list[MemberProcess] = []
        self._folder = folder

    def start(self, client: Client, name: str, **options: Any) -> MemberProcess:
        """Start a member; more options are those of `Options`."""
        usual = {
            "bootstrap": self.daemon.address,
            "group": self.group,
            "topic": self.topic,
            "assignor": client.assignor,
        }
        member = MemberProcess(client, Options(client=name, **{**usual, **options}), self._folder)
        self.members.append(member)
        return member

    def settle(self, *members: MemberProcess, timeout_s: float = _SETTLE_S) -> dict[str, Any]:
        """Wait until these members are the group and share all partitions; return the group."""
        deadline = time.monotonic() + timeout_s
        while not self._is_settled(*members):
            ended = [member for member in members if not member.is_running]
            if ended or time.monotonic() > deadline:
                raise AssertionError(self._why_not(*members))
            time.sleep(_POLL_S)
        return self.look()

    def calm(self, *members: MemberProcess) -> dict[str, Any]:
        """As `settle`, and then wait until no more rebalances follow.

        kafka-python's leader may join again a moment after it has led, when it has looked at the
        topics once more.
        """
        group = self.settle(*members)
        while True:
            time.sleep(_CALM_S)
            later = self.settle(*members)
            if later["generation"] == group["generation"]:
                return later
            group = later

    def look(self) -> dict[str, Any]:
        """The group as the daemon shows it."""
        return self.daemon.group(self.group)

    def _is_settled(self, *members: MemberProcess) -> bool:
        owned = [partition for member in members for partition in member.owned]
        if sorted(owned) != sorted(self.partitions) or not all(member.owned for member in members):
            return False
        group = self.look()
        return group["state"] == "Stable" and len(group["members"]) == len(members)

    def _why_not(self, *members: MemberProcess) -> str:
        names = ", ".join(member.name for member in members)
        parts = [f"{names} do not share all partitions", *(member.told() for member in members)]
        try:
            parts.append(str(self.look()))
        except OSError as error:
            parts.append(f"{self.group}: {error}")
        return "\n".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.die()
