"""The initial delay of an empty group's first rebalance, here 1.5 s.

Times are not compared, only which of a few possible moments it was.
"""

from __future__ import annotations

import time

from tests.interop.differential.differences import DELAY_ANEW, PENDING
from tests.interop.differential.member import Member, cast, settle
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Exchange, Reply, Script

_DELAY_S = 1.5


class _Watch:
    """When something happened, as the latest of the moments at which it could."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._began = time.monotonic()

    async def awaits(self, exchange: Exchange, *moments: float) -> Reply:
        """Await an answer; note at which moment it came."""
        await exchange
        passed = time.monotonic() - self._began
        # Nothing comes early; the clocks of two processes may still differ a little.
        moment = max(m for m in (0.0, *moments) if m <= passed + 0.05)
        return self._script.note("seconds", moment)


@scenario(Setup.NARROW)
async def the_delay_of_one(s: Script) -> None:
    """A lone member is answered after the delay, however short its rebalance timeout."""
    a = await Member.of(s, "a", rebalance_ms=300)
    await a.get_id()
    watch = _Watch(s)
    join = await a.join().parked()
    await s.describe()
    await watch.awaits(join, _DELAY_S, 2 * _DELAY_S)


@scenario(Setup.NARROW)
async def a_newcomer_prolongs_the_delay(s: Script) -> None:
    """A member that comes during the delay adds another one."""
    a, b = await cast(s, "a", "b")
    watch = _Watch(s)
    first = await a.begin(version=3)
    second = await b.begin(version=3)
    await watch.awaits(first, _DELAY_S, 2 * _DELAY_S, 3 * _DELAY_S)
    await second


@scenario(Setup.NARROW)
async def the_delay_ends_with_the_rebalance_timeout(s: Script) -> None:
    """All delays together are no longer than the first member's rebalance timeout."""
    a = await Member.of(s, "a", rebalance_ms=2250)
    b = await Member.of(s, "b", rebalance_ms=20_000)
    watch = _Watch(s)
    first = await a.begin(version=3)
    second = await b.begin(version=3)
    await watch.awaits(first, _DELAY_S, 2.25, 2 * _DELAY_S)
    await second


@scenario(Setup.NARROW)
async def a_pending_id_is_not_awaited_in_the_delay(s: Script) -> None:
    """The delay ends without those who were only told their id."""
    a, b = await cast(s, "a", "b")
    watch = _Watch(s)
    join = await a.begin(version=3)
    await b.get_id()
    await watch.awaits(join, _DELAY_S, 2 * _DELAY_S)
    await b.join().parked()
    await a.until_told()


@scenario(Setup.NARROW)
async def a_pending_id_expires_in_the_delay(s: Script) -> None:
    """In Kafka the end of an unused id ends the delay, too."""
    a, b = await cast(s, "a", "b")
    watch = _Watch(s)
    join = await a.begin(version=3)
    await b.join(session_timeout_ms=300)
    reply = await watch.awaits(join, _DELAY_S, 2 * _DELAY_S)
    reply.differs(PENDING, kafka=0.0, coterie=_DELAY_S)


@scenario(Setup.NARROW)
async def somebody_leaves_in_the_delay(s: Script) -> None:
    """The delay goes on for those who stay."""
    a, b = await cast(s, "a", "b")
    first = await a.begin()
    second = await b.begin()
    await (await b.elsewhere()).leave()
    await second
    await s.describe()
    await first


@scenario(Setup.NARROW)
async def all_leave_in_the_delay(s: Script) -> None:
    """The group is preparing until the delay is over, then it is empty."""
    (a,) = await cast(s, "a")
    join = await a.begin()
    await (await a.elsewhere()).leave()
    await join
    await s.describe()
    await s.until_state("Empty")
    a.id = ""
    await a.enter()


@scenario(Setup.NARROW)
async def a_static_member_is_replaced_in_the_delay(s: Script) -> None:
    """The one that came last is answered when the delay is over."""
    a = await Member.of(s, "a", instance="i-a")
    watch = _Watch(s)
    first = await a.join().parked()
    new = await a.again(client_id="a")
    second = await new.join().parked()
    await first
    await watch.awaits(second, _DELAY_S, 2 * _DELAY_S)
    await new.sync({new: b"all"})


@scenario(Setup.NARROW)
async def the_delay_comes_with_every_emptying(s: Script) -> None:
    """A group that was emptied waits again; Kafka still counts who came before."""
    a = await Member.of(s, "a", rebalance_ms=int(_DELAY_S * 1000))
    b, c = await cast(s, "b", "c")
    joins = [await a.begin(version=3), await b.begin(version=3)]
    for join in joins:
        await join
    await settle(a, b)
    await a.leave(a.identity(), b.identity())
    watch = _Watch(s)
    reply = await watch.awaits(await c.begin(version=3), _DELAY_S, 2 * _DELAY_S)
    reply.differs(DELAY_ANEW, kafka=2 * _DELAY_S, coterie=_DELAY_S)
