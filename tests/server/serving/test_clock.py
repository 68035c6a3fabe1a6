"""A node's two times: how long it has been running, and the date."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from coterie_server.serving.clock import TICK_MS, Alarm, Clock, Tick

BEGAN_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
NS_PER_MS = 1_000_000


class Timers:
    """Stands in for an event loop, of which the timers run when a test lets them."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def call_later(self, wait_s: float, _call: Callable[[], None]) -> Timers:
        """Note a timer, of which there is one at a time."""
        self.waits_s.append(wait_s)
        return self

    def cancel(self) -> None:
        """Drop it."""
        self.waits_s.clear()


class Machine:
    """A machine with a node's clock, and a hand on its own clocks."""

    def __init__(self, *, started: bool = True) -> None:
        self.elapsed_ns = 5 * NS_PER_MS
        self.wall_ns = BEGAN_MS * NS_PER_MS
        self.clock = Clock(lambda: self.elapsed_ns, lambda: self.wall_ns)
        self.ticks: list[Tick] = []
        if started:
            self.clock.start()

    def pass_by(self, ms: float) -> None:
        """Let time pass in which the node does nothing."""
        self.elapsed_ns += round(ms * NS_PER_MS)
        self.wall_ns += round(ms * NS_PER_MS)

    def tick(self) -> None:
        """Let the node's timer come."""
        tick = self.clock.tick()
        if tick != Tick():
            self.ticks.append(tick)

    def run(self, ms: int) -> None:
        """Let the node run for a while."""
        for _ in range(ms // TICK_MS):
            self.pass_by(TICK_MS)
            self.tick()
        self.pass_by(ms % TICK_MS)

    def step(self, ms: float) -> None:
        """Set the system's clock."""
        self.wall_ns += round(ms * NS_PER_MS)

    @property
    def wall_ms(self) -> int:
        """What the system's clock shows."""
        return self.wall_ns // NS_PER_MS

    @property
    def ran_ms(self) -> int:
        """How long the node has been running, as its clock has it."""
        return self.clock.now_ms() - BEGAN_MS


# -- running time ------------------------------------------------------------------------------


def test_running_time_passes_to_the_millisecond_while_the_node_runs() -> None:
    machine = Machine()
    machine.run(100_100)
    assert machine.ran_ms == 100_100
    machine.pass_by(0.7)
    assert machine.ran_ms == 100_100
    machine.pass_by(0.3)
    assert machine.ran_ms == 100_101
    assert machine.ticks == []


def test_time_begins_when_the_node_serves() -> None:
    """No heartbeat is handled while the groups are read, so no session passes; the date goes on."""
    machine = Machine(started=False)
    machine.run(60_000)
    assert (machine.ran_ms, machine.clock.date_ms()) == (0, machine.wall_ms)
    machine.clock.start()
    machine.run(1_000)
    assert (machine.ran_ms, machine.clock.date_ms()) == (1_000, machine.wall_ms)
    assert machine.ticks == []


@pytest.mark.parametrize("pause_ms", [501, 12_000, 24 * HOUR_MS])
def test_nothing_of_a_pause_counts_not_even_before_the_tick_that_finds_it(pause_ms: int) -> None:
    machine = Machine()
    machine.run(10_100)
    assert machine.ran_ms == 10_100
    machine.pass_by(pause_ms)
    assert machine.ran_ms == 10_100
    machine.tick()
    assert machine.ran_ms == 10_100


def test_time_stands_still_until_what_arrived_is_read() -> None:
    """A turn of the loop lies between two ticks; then it goes on as before."""
    machine = Machine()
    machine.run(10_000)
    machine.pass_by(12_000)
    machine.tick()
    machine.pass_by(TICK_MS - 1)
    assert machine.ran_ms == 10_000
    machine.pass_by(1)
    machine.tick()
    ran_ms = machine.ran_ms
    assert ran_ms <= 10_000 + TICK_MS
    machine.run(1_000)
    assert machine.ran_ms == ran_ms + 1_000


def test_date_goes_on_while_running_time_stands_still() -> None:
    """What a node journals then is not dated before what another node did meanwhile."""
    machine = Machine()
    machine.run(10_100)
    machine.pass_by(12_000)
    assert (
        machine.clock.date_ms() == machine.clock.date_of(machine.clock.now_ms()) == machine.wall_ms
    )
    machine.tick()
    for _ in range(24):
        machine.pass_by(10)
        assert machine.clock.date_of(machine.clock.now_ms()) == machine.wall_ms
    assert machine.ran_ms == 10_000


def test_a_pause_that_matters_is_told_once_with_its_length() -> None:
    machine = Machine()
    machine.run(1_000)
    machine.pass_by(12_000)
    machine.tick()
    machine.run(10_000)
    machine.pass_by(900)
    machine.tick()
    machine.run(1_000)
    assert machine.ticks == [Tick(paused_ms=12_000)]


def test_time_of_a_node_that_is_always_late_goes_on() -> None:
    """A loop whose every turn takes long is slow, and must not stop all deadlines."""
    machine = Machine()
    for _ in range(40):
        machine.pass_by(1_500)
        machine.tick()
    assert machine.ran_ms >= 40 // 2 * TICK_MS


def test_busy_node_does_not_outrun_its_sockets() -> None:
    """However often the time is read in a turn of the loop that takes long."""
    machine = Machine()
    for _ in range(10_000):
        machine.pass_by(1)
        assert machine.ran_ms <= 500


@pytest.mark.parametrize("step_ms", [-HOUR_MS, -700, 700, HOUR_MS, 50 * 365 * 24 * HOUR_MS])
def test_step_does_not_touch_running_time(step_ms: int) -> None:
    """No session ends because the system's clock was set."""
    machine = Machine()
    machine.run(1_000)
    machine.step(step_ms)
    machine.run(10_000)
    assert machine.ran_ms == 11_000


# -- the date ----------------------------------------------------------------------------------


def test_the_date_is_the_systems_also_after_a_pause() -> None:
    machine = Machine()
    machine.run(1_000)
    assert machine.clock.date_ms() == machine.wall_ms
    machine.pass_by(12_000)
    machine.tick()
    assert machine.clock.date_ms() == machine.wall_ms


def test_date_follows_a_step_forward_at_once() -> None:
    """A container that starts before its clock is right does not stay in the past."""
    machine = Machine()
    machine.run(1_000)
    machine.step(HOUR_MS)
    machine.run(TICK_MS)
    assert machine.clock.date_ms() == machine.wall_ms
    assert machine.ticks == [Tick(stepped_ms=HOUR_MS)]


def test_date_waits_for_a_clock_that_was_set_back() -> None:
    """It runs at half its speed until the system's clock has caught up, and never goes back."""
    machine = Machine()
    machine.run(1_000)
    machine.step(-10_000)
    before_ms = machine.clock.date_ms()
    machine.run(10_000)
    assert machine.clock.date_ms() - before_ms == pytest.approx(5_000, abs=TICK_MS)
    machine.run(11_000)
    assert machine.clock.date_ms() == pytest.approx(machine.wall_ms, abs=20)
    assert machine.ticks == [Tick(stepped_ms=-10_000)]


def test_small_drift_is_followed_and_not_told() -> None:
    machine = Machine()
    for number in range(4_000):
        machine.step((3, -3, 0.5)[number % 3])
        machine.run(TICK_MS)
        assert machine.clock.date_ms() == pytest.approx(machine.wall_ms, abs=25)
    assert machine.ticks == []


def test_a_clock_set_during_a_pause_makes_two_lines() -> None:
    machine = Machine()
    machine.run(1_000)
    machine.pass_by(12_000)
    machine.step(HOUR_MS)
    machine.tick()
    assert machine.ticks == [Tick(paused_ms=12_000, stepped_ms=HOUR_MS)]
    assert machine.clock.date_ms() == machine.wall_ms


def test_reading_the_clocks_is_no_step() -> None:
    """A process that is suspended between reading one clock and the other reads both again."""
    elapsed_s = iter((0, 0, 0, 0, 0, 12, 12, 12, 12))

    def elapsed_ns() -> int:
        return next(elapsed_s) * 1_000 * NS_PER_MS

    wall_s = iter((0, 0, 0, 12))
    clock = Clock(elapsed_ns, lambda: next(wall_s) * 1_000 * NS_PER_MS)
    clock.start()
    assert clock.tick() == Tick(paused_ms=12_000)


@pytest.mark.parametrize("seed", range(20))
def test_neither_time_ever_goes_back(seed: int) -> None:
    """Whatever befalls node and system; and time that is told is never more than has passed."""
    chance = random.Random(seed)
    machine = Machine()
    now_ms, date_ms = machine.clock.now_ms(), machine.clock.date_ms()
    began_ns = machine.elapsed_ns
    for _ in range(2_000):
        match chance.randrange(8):
            case 0:
                machine.step(chance.uniform(-1, 1) * chance.choice((1, 100, 10_000)))
            case 1:
                machine.pass_by(chance.uniform(0, 5_000))
            case 2:
                machine.tick()
            case _:
                machine.pass_by(chance.uniform(0, 300))
                machine.tick()
        assert machine.clock.now_ms() >= now_ms
        assert machine.clock.date_ms() >= date_ms
        now_ms, date_ms = machine.clock.now_ms(), machine.clock.date_ms()
        assert machine.ran_ms <= (machine.elapsed_ns - began_ns) // NS_PER_MS


# -- the alarm ---------------------------------------------------------------------------------


class Due:
    """An alarm, with timers that go off when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timers, self.machine = Timers(), Machine()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self.timers)
        self.can_be_done = True
        self.alarm = Alarm(self.machine.clock, lambda: self.can_be_done)

    def wait_s(self) -> float:
        """In what time it is to go off."""
        return self.timers.waits_s[-1]

    def go_off(self) -> None:
        """Let that time pass."""
        self.machine.run(int(self.wait_s() * 1000) + TICK_MS)
        self.alarm._go_off()  # noqa: SLF001  # as its timer does


def test_an_alarm_rests_while_those_are_heard_who_have_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As what is due may be that they expire; a step that says so again does not wake it."""
    due = Due(monkeypatch)
    due.alarm.arm(0)
    assert due.wait_s() == 0
    due.alarm.go_on(have_waited=True)
    due.alarm.arm(0)
    assert due.timers.waits_s == [1]
    due.machine.run(TICK_MS * 4)
    due.alarm.cancel()
    due.alarm.arm(0)
    assert due.wait_s() == 0


def test_an_alarm_rests_until_those_ask_again_who_were_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though nobody waits at the moment in which it may go off again."""
    due = Due(monkeypatch)
    due.alarm.go_on(have_waited=False)
    assert due.wait_s() == 0
    due.alarm.doubt()
    due.alarm.go_on(have_waited=False)
    assert due.wait_s() == 1
    due.go_off()
    due.alarm.go_on(have_waited=False)
    assert due.wait_s() == 0


def test_an_alarm_that_is_put_off_again_and_again_goes_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    due = Due(monkeypatch)
    due.alarm.go_on(have_waited=True)
    due.can_be_done = False
    due.go_off()
    due.alarm.go_on(have_waited=True)
    assert due.wait_s() == 0.1
    due.can_be_done = True
    due.go_off()
    due.alarm.go_on(have_waited=True)
    assert due.wait_s() == 1
