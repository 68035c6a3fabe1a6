"""Members that poll in a thread of their own, as those of kafka-python and confluent-kafka do."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

from tests.soak.members.recorder import (
    AWAY_S,
    MemberOrders,
    MemberRecorder,
    Orders,
    stop_with_input,
)

__all__ = ["PollingMember", "host"]

POLL_S: Final = 0.1
#: Between the starts of two members of a process.
_APART_S: Final = 0.02


class PollingMember(ABC):
    """One life of a member: it owns partitions, and counts and commits on each of them."""

    def __init__(self, orders: Orders, member: MemberOrders, recorder: MemberRecorder) -> None:
        self.orders = orders
        self.member = member
        self.recorder = recorder
        #: The partitions that it owns, and how far each has come since that was read.
        self.owned: set[int] = set()
        self.done: dict[int, int] = {}
        self._has_just_committed = False

    @abstractmethod
    def poll(self) -> None:
        """Take part in the group for a moment."""

    @abstractmethod
    def committed(self, partitions: set[int]) -> dict[int, int]:
        """What is committed for partitions; 0 if nothing is."""

    @abstractmethod
    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets, or raise."""

    @abstractmethod
    def generation(self) -> int:
        """The generation it is in; -1 if the library does not tell."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""

    def gained(self, partitions: set[int]) -> None:
        """Partitions were assigned."""
        self.owned |= partitions
        self.recorder.partitions("assigned", partitions)

    def gave(self, what: str, partitions: set[int]) -> None:
        """Partitions were revoked or lost."""
        self.owned -= partitions
        self.done = {each: done for each, done in self.done.items() if each in self.owned}
        self.recorder.partitions(what, partitions)

    def run(self, until_s: float, stopped: threading.Event) -> None:
        """Work until a moment, or until stopped."""
        due_s = time.monotonic() + random.uniform(0, self.orders.commit_s)
        while not stopped.is_set():
            # When it has just been answered, its leaving will most probably be heard.
            if time.monotonic() > until_s and self._has_just_committed:
                break
            self._has_just_committed = False
            self._attempt(self.poll)
            self.recorder.generation(self.generation())
            if new := self.owned - self.done.keys():
                self._attempt(self._read, new)
            if time.monotonic() >= due_s and self.done:
                due_s = max(due_s + self.orders.commit_s, time.monotonic())
                self._count_and_commit()
        self.recorder.tell("left")
        self._attempt(self.close)

    def _attempt(self, action: Callable[..., object], *arguments: object) -> None:
        try:
            action(*arguments)
        except Exception as error:  # noqa: BLE001  # it is told, whatever it is
            self.recorder.tell("error", error=repr(error))
            time.sleep(POLL_S)

    def _read(self, partitions: set[int]) -> None:
        asked_s = time.monotonic()
        found = self.committed(partitions)
        self.recorder.offsets("read", asked_s, found)
        self.done |= {each: done for each, done in found.items() if each in self.owned}

    def _count_and_commit(self) -> None:
        self.done = offsets = {partition: done + 1 for partition, done in self.done.items()}
        offsets = dict(offsets)
        asked_s = time.monotonic()
        self.recorder.offsets("sent", asked_s, offsets)
        try:
            self.commit(offsets)
        except Exception as error:  # noqa: BLE001  # it is told, whatever it is
            self.recorder.offsets("failed", asked_s, offsets, error=repr(error))
        else:
            self.recorder.offsets("acked", asked_s, offsets)
            self._has_just_committed = True


MakeMember = Callable[[Orders, MemberOrders, MemberRecorder], PollingMember]


def host(make: MakeMember) -> None:
    """Host the members that the orders name, each in a thread."""
    orders, stopped = Orders.read(), stop_with_input()
    threads = [
        threading.Thread(target=_live, args=(make, orders, member, stopped))
        for member in orders.members
    ]
    for thread in threads:
        thread.start()
        time.sleep(_APART_S)
    for thread in threads:
        thread.join()


def _live(make: MakeMember, orders: Orders, member: MemberOrders, stopped: threading.Event) -> None:
    recorder = MemberRecorder(orders, member)
    while not stopped.is_set():
        recorder.begin()
        stay_s = member.stay_s or float("inf")
        make(orders, member, recorder).run(time.monotonic() + stay_s, stopped)
        stopped.wait(AWAY_S)
