"""The two times of a node: how long it has been running, and the date."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from coterie_protocol.journal import ClockStepped, NodePaused

if TYPE_CHECKING:
    from coterie_protocol.journal import Event

__all__ = ["TICK_MS", "Alarm", "Clock", "Soon", "Tick", "Ticker"]

#: How often `Clock.tick` is to be called.
TICK_MS: Final = 250
#: A stretch between two ticks that is longer than this is time in which the node did not run.
_COUNTED_AT_MOST_MS: Final = 500
#: Pauses and steps that are shorter are taken into account, but not worth a line.
_WORTH_TELLING_MS: Final = 1_000
#: The date may be so far ahead of the system's; reading two clocks takes a moment.
_AHEAD_AT_MOST_MS: Final = 20
#: While it is further ahead, it runs slower by this factor.
_SLOWER_BY: Final = 2

_MS: Final = 1_000_000

#: Linux's monotonic clock leaves out the time for which the machine slept, this one does not.
_elapsed_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)
_elapsed_s: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


def _in_seconds(elapsed_ns: Callable[[], int]) -> Callable[[], float]:
    return lambda: elapsed_ns() / 1_000_000_000


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick has found: 0 for what did not happen, or was too short to be worth telling."""

    #: For how long the node did not run.
    paused_ms: int = 0
    #: By how much the system's clock was set forward; negative if it was set back.
    stepped_ms: int = 0


class Clock:
    """Tells how long the node has been running, and what date it is.

    **Running time**, `now_ms`, is what sessions, rebalances and all other deadlines go by.  It
    begins as the date of the node's start and never goes back.  It stands still

    - until `start` is called, since no client is heard before the node serves;
    - while the node does not run, because its process or machine is suspended or its event loop
      is blocked.  Such a pause shows by a tick that comes late.  The present stretch counts up to
      the last reading before the pause, so it makes no difference whether the tick, another timer
      or a request comes first afterwards;
    - from the late tick to the next one.  A whole turn of the event loop lies between them, in
      which it reads what has arrived in its sockets.

    So no deadline passes between the beginning of a pause and the moment at which everything that
    arrived meanwhile has been read.

    **The date**, `date_of` and `date_ms`, is what is written down: in the journal, with offsets
    and topics, in leases.  It never stands still, or the journals of several nodes would tell of
    things in an order in which they did not happen.  It follows the system's clock, forward at once
    and back by running at half its speed until the system's clock has caught up, so it never goes
    back either.  A step of the system's clock does nothing to running time.
    """

    __slots__ = (
        "_base_ms",
        "_counted_at_most_ns",
        "_date_ms",
        "_elapsed_ns",
        "_is_slow",
        "_shown_ms",
        "_started",
        "_ticked_ns",
        "_wall_ms",
        "_wall_ns",
        "elapsed_s",
    )

    def __init__(
        self,
        elapsed_ns: Callable[[], int] = _elapsed_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._elapsed_ns = elapsed_ns
        #: Time that passes whatever becomes of the node; for what others count on meanwhile.  Each
        #: heartbeat asks for it.
        self.elapsed_s = _elapsed_s if elapsed_ns is _elapsed_ns else _in_seconds(elapsed_ns)
        self._wall_ns = wall_ns
        self._started = False
        #: The last tick: when it was, and what running time, date and system's clock were then.
        self._ticked_ns, self._wall_ms = self._read()
        self._base_ms = self._date_ms = self._wall_ms
        #: The last running time that was told.
        self._shown_ms = self._base_ms
        #: How much of the present stretch counts; nothing if running time stands still.
        self._counted_at_most_ns = 0
        self._is_slow = False

    def now_ms(self) -> int:
        """How long the node has been running, in milliseconds since some moment."""
        stretch_ns = self._elapsed_ns() - self._ticked_ns
        if stretch_ns <= self._counted_at_most_ns:
            self._shown_ms = shown_ms = self._base_ms + stretch_ns // _MS
            return shown_ms
        return self._shown_ms

    def date_of(self, now_ms: int) -> int:
        """The date of a moment of running time, in milliseconds since 1970.

        It is exact for the present.  Pauses and steps between a past moment and now shift it.
        """
        # As `now_ms` and `date_ms` have it, of one reading of the clock.
        stretch_ns = self._elapsed_ns() - self._ticked_ns
        if stretch_ns <= self._counted_at_most_ns:
            self._shown_ms = self._base_ms + stretch_ns // _MS
        return self._date_after(stretch_ns // _MS) - (self._shown_ms - now_ms)

    def date_ms(self) -> int:
        """The present date."""
        return self._date_after((self._elapsed_ns() - self._ticked_ns) // _MS)

    def _date_after(self, stretch_ms: int) -> int:
        """The date so long after the last tick."""
        return self._date_ms + (stretch_ms // _SLOWER_BY if self._is_slow else stretch_ms)

    def start(self) -> None:
        """Let running time begin."""
        self.tick()
        self._started = True
        self._counted_at_most_ns = _COUNTED_AT_MOST_MS * _MS

    def tick(self) -> Tick:
        """Take note of how much time has passed; call it every `TICK_MS`, from a timer."""
        elapsed_ns, wall_ms = self._read()
        stretch_ms = (elapsed_ns - self._ticked_ns) // _MS
        is_late = self._started and stretch_ms > _COUNTED_AT_MOST_MS
        stood_still = not self._counted_at_most_ns
        counted_ms = self._counted_ms(stretch_ms, is_late=is_late, stood_still=stood_still)
        paused_ms = stretch_ms - counted_ms if is_late else 0
        stepped_ms = wall_ms - self._wall_ms - stretch_ms

        self._set_date(self._date_after(stretch_ms), wall_ms)
        self._base_ms += counted_ms
        self._shown_ms = self._base_ms
        self._ticked_ns += stretch_ms * _MS
        if self._started:
            settles = is_late and not stood_still
            self._counted_at_most_ns = 0 if settles else _COUNTED_AT_MOST_MS * _MS
        return Tick(_worth_telling(paused_ms), _worth_telling(stepped_ms))

    def _counted_ms(self, stretch_ms: int, *, is_late: bool, stood_still: bool) -> int:
        """How much of the stretch that ends now is running time."""
        if not self._started:
            return 0
        if stood_still:
            # What had arrived has been read by now.  To count nothing at all would stop the time
            # of a node that is always late.
            return min(stretch_ms, TICK_MS)
        return self._shown_ms - self._base_ms if is_late else stretch_ms

    def _set_date(self, date_ms: int, wall_ms: int) -> None:
        """Bring the date, as it has run on until now, closer to the system's clock."""
        self._date_ms = max(date_ms, wall_ms)
        self._is_slow = date_ms - wall_ms > _AHEAD_AT_MOST_MS
        self._wall_ms = wall_ms

    def _read(self) -> tuple[int, int]:
        """Both of the system's clocks, at one moment: a pause in between would look like a step."""
        while True:
            elapsed_ns, wall_ns = self._elapsed_ns(), self._wall_ns()
            if self._elapsed_ns() - elapsed_ns < _AHEAD_AT_MOST_MS * _MS:
                return elapsed_ns, wall_ns // _MS


def _worth_telling(ms: int) -> int:
    return ms if abs(ms) >= _WORTH_TELLING_MS else 0


class Ticker:
    """Ticks a clock from a timer of the running event loop, and tells of pauses and steps."""

    def __init__(self, clock: Clock, observe: Callable[[int, Event], None]) -> None:
        self._clock = clock
        self._observe = observe
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Tick from now on."""
        self._timer = asyncio.get_running_loop().call_later(TICK_MS / 1000, self._tick)

    def stop(self) -> None:
        """Tick no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self.start()
        tick = self._clock.tick()
        if tick.paused_ms:
            self._observe(self._clock.date_ms(), NodePaused(paused_ms=tick.paused_ms))
        if tick.stepped_ms:
            self._observe(self._clock.date_ms(), ClockStepped(stepped_ms=tick.stepped_ms))


#: In this time clients ask again that were refused, and each has many of the requests handled that
#: it sent at once; and how long a rest is that follows another before anything due was done, as a
#: store that stalls again and again must not put off for ever what is due.
_REST_MS: Final = 1000
_FURTHER_REST_MS: Final = 100


class Alarm:
    """One timer for all that is due: it is armed for the earliest."""

    def __init__(self, clock: Clock, fire: Callable[[], bool]) -> None:
        self._clock = clock
        #: Does what is due; False if that can't be done just now.
        self._fire = fire
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = self._rests_until_ms = 0
        self._is_in_doubt = self._has_rested = False

    def doubt(self) -> None:
        """Take note that clients may be refused what they are to be heard with."""
        self._is_in_doubt = True

    def go_on(self, *, have_waited: bool) -> None:
        """Let it go off now; if clients have waited, or were refused, when they were heard."""
        has_to_rest, self._is_in_doubt = have_waited or self._is_in_doubt, False
        if has_to_rest:
            self.cancel()
            rest_ms = _FURTHER_REST_MS if self._has_rested else _REST_MS
            self._rests_until_ms, self._has_rested = self._clock.now_ms() + rest_ms, True
        self.arm(0)

    def arm(self, due_ms: int) -> None:
        """Have it go off at a time, unless it will before."""
        armed_ms, rests_ms = self._due_ms, self._rests_until_ms
        if self._timer is not None and (armed_ms <= due_ms or armed_ms <= rests_ms):
            return
        due_ms = max(due_ms, rests_ms)
        self.cancel()
        self._due_ms = due_ms
        wait_s = max(due_ms - self._clock.now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._go_off)

    def _go_off(self) -> None:
        self._timer = None
        if self._fire():
            self._has_rested = False

    def cancel(self) -> None:
        """Let it not go off, until it is armed again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


class Soon:
    """Does something a moment after it is asked to, once for all who asked in that moment."""

    def __init__(self, wait_s: float, do: Callable[[], None]) -> None:
        self._wait_s = wait_s
        self._do = do
        self._timer: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        """Have it done."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._wait_s, self._fire)

    def cancel(self) -> None:
        """Don't do what was asked for and is not done yet."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._do()
