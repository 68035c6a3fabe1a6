"""Noticing that the machine was asleep."""

from __future__ import annotations

import asyncio
import time

import pytest

from coterie_client import clock
from coterie_client.clock import SleepWatch, asleep_ms
from tests.support.virtual_time import virtual_test


class Clocks:
    """The system's clocks: one counts sleep, the other one does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.awake_s, self.slept_s = 1_000.0, 0.0
        #: What each reading of the clock that counts sleep is held up by.
        self.hold_ups: list[float] = []
        monkeypatch.setattr(clock, "_CLOCK", 7)
        monkeypatch.setattr(time, "clock_gettime", self._elapsed)
        monkeypatch.setattr(time, "monotonic", lambda: self.awake_s)

    def _elapsed(self, _clock: int) -> float:
        read_s = self.awake_s + self.slept_s
        if self.hold_ups:
            self.awake_s += self.hold_ups.pop(0)
        return read_s


def test_sleep_is_what_one_clock_counts_and_the_other_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = Clocks(monkeypatch)
    assert asleep_ms() == 0
    clocks.slept_s = 3_600.0
    clocks.awake_s += 10
    assert asleep_ms() == 3_600_000


def test_pause_between_two_readings_is_no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    clocks.slept_s = 60.0
    clocks.hold_ups = [30.0]
    assert asleep_ms() == 60_000


def test_system_without_such_a_clock_never_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_CLOCK", None)
    assert asleep_ms() == 0


def test_this_system_tells_it() -> None:
    before_ms = asleep_ms()
    assert 0 <= asleep_ms() - before_ms + 1 <= 2


@virtual_test
async def test_watch_tells_once_of_each_sleep_until_it_is_stopped() -> None:
    slept_ms, told = [5_000], []
    watch = SleepWatch(lambda: slept_ms[0], lambda: told.append(slept_ms[0]))
    watch.stop()
    watch.start()
    await asyncio.sleep(10)
    assert told == []
    slept_ms[0] = 6_000
    await asyncio.sleep(0.3)
    assert told == [6_000]
    slept_ms[0] += 1  # the clocks' resolution
    await asyncio.sleep(10)
    assert told == [6_000]
    watch.stop()
    slept_ms[0] = 9_000
    await asyncio.sleep(10)
    assert told == [6_000]
