"""A coordinator that may answer anything at any time, and a user who may want anything.

The checks of `Script` run after every step, so the member may never start work twice, settle a
commit twice, spin, or wait for what can't come; and in the end it recovers, or has stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from coterie_client.membership import FailureKind
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import JoinGroupRequest, SyncGroupRequest
from tests.support.scripted_membership import NODE, OTHER, Script

PARTITIONS = [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]

CODES = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.FENCED_INSTANCE_ID,
)


FIXED = range(150)
FRESH = 100


class SeededRun:
    """One member's life, by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.script = Script("t", "u", instance="i").start()
        self.asked = 0

    def run(self) -> None:
        """Let anything happen, and then only what is good."""
        likely: tuple[Callable[[], None], ...] = (self.answers,) * 8 + (
            self.fails,
            self.doubts,
            self.releases,
            self.sleeps,
            self.sleeps,
            self.asks,
            self.subscribes,
            self.rejoins,
            self.closes,
        )
        for _ in range(self.random.randint(5, 50)):
            if self.script.stopped is None:
                self.random.choice(likely)()
        self.script.survive(*PARTITIONS[:2])
        for _ in range(40):
            if self.script.keys <= self.script.results.keys():
                break
            self.script.help_out(*PARTITIONS[:2])
        assert self.script.keys == self.script.results.keys(), self.script.describe()

    def request(self) -> Any:
        """One of the requests under way."""
        waiting = self.script.awaited()
        return self.random.choice(waiting) if waiting else None

    def answers(self) -> None:
        """Something is answered: mostly well, sometimes with an error."""
        send = self.request()
        if send is None:
            return
        kind = type(send.message)
        if self.random.random() < 0.3:
            self.script.refuse(kind, self.random.choice(CODES))
        elif kind is JoinGroupRequest:
            generation = max(self.script.machine.identity.generation, 0) + 1
            self.script.join(generation, leads=self.random.random() < 0.4)
        elif kind is SyncGroupRequest:
            given = self.random.sample(PARTITIONS, self.random.randint(0, len(PARTITIONS)))
            self.script.sync(*given, needs_rejoin=self.random.random() < 0.2)
        else:
            self.script.answer_kindly(send, ())

    def fails(self) -> None:
        """Something is not answered."""
        send = self.request()
        if send is not None:
            failure = self.random.choice([FailureKind.LOST, FailureKind.TIMED_OUT])
            self.script.fail(type(send.message), failure)

    def doubts(self) -> None:
        """Another node says who is the coordinator, if it is asked."""
        if self.script.doubt() is not None:
            self.script.name(self.random.choice([NODE, OTHER, None]))

    def releases(self) -> None:
        """Some of the work that is to end ends."""
        revoking = sorted(self.script.revoking)
        if revoking:
            self.script.release(
                *self.random.sample(revoking, self.random.randint(1, len(revoking)))
            )

    def sleeps(self) -> None:
        """Time passes."""
        self.script.sleep(self.random.choice([0, 10, 100, 1_000, 5_000, 40_000]))

    def asks(self) -> None:
        """An offset is committed, or asked for."""
        self.asked += 1
        if self.script.working and self.random.random() < 0.8:
            self.script.commit(self.asked, self.random.choice(sorted(self.script.working)), 1)
        else:
            self.script.fetch(self.asked, self.random.choice(PARTITIONS))

    def subscribes(self) -> None:
        """Other topics are wanted."""
        self.script.subscribe(*self.random.choice([("t",), ("u",), ("t", "u"), ()]))

    def rejoins(self) -> None:
        """The user wants a rebalance."""
        self.script.do(self.script.machine.rejoin("wanted", self.script.now_ms))

    def closes(self) -> None:
        """The user ends it, now and then."""
        if self.random.random() < 0.1:
            self.script.close(leave=self.random.random() < 0.5)


def live(seed: int) -> None:
    """Live one life, and say by which seed if that goes wrong."""
    try:
        SeededRun(seed).run()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


def test_a_member_recovers_or_stops_whatever_the_answers() -> None:
    for seed in FIXED:
        live(seed)


def test_fresh_seeds() -> None:
    for _ in range(FRESH):
        live(random.SystemRandom().randrange(2**32))
