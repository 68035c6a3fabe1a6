"""What a member holds besides what it works on: standbys, warm-ups, and how far behind they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from coterie_assignors import RUNNING, STALLED, UNKNOWN, WarmReport, WarmSettings
from coterie_client.membership.actions import KeepWarm, Role
from coterie_client.membership.context import Context
from coterie_client.membership.events import (
    ProbingScheduled,
    ReportVersionChanged,
    StandbysChanged,
    StandbysPromoted,
    WarmUpReady,
)
from coterie_client.membership.phases import Phase
from coterie_client.membership.stalls import Stalls
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.streams import next_version

if TYPE_CHECKING:
    from coterie_client.membership.warm_blocks import Orders

__all__ = ["Held", "Standbys"]

#: Tells the lags of what is on disk, as far as they are known: -1 and less where they are not.
Held: TypeAlias = Callable[[], Mapping[TopicPartition, int]]

#: How many partitions a reason names.
_NAMED: Final = 3

#: A UUID is put together of random numbers of 32 bits.
_UUID_PARTS: Final = (0, 32, 64, 96)


class Standbys:
    """Knows the state that a member holds, reports it, and says when the group should look again.

    A member without `keep_warm` reports nothing, so a leader takes it for one that needs no state.
    """

    def __init__(self, context: Context) -> None:
        self._config = context.config
        self._sources = context.sources
        self._outbox = context.outbox
        self._state = context.state
        self._settings = context.config.warm or WarmSettings()
        self._stalls = Stalls(self._settings.probing_rebalance_interval_ms)
        self._held: Held | None = None
        #: What is kept up to date, and why.
        self.roles: dict[TopicPartition, Role] = {}
        #: What tasks have told of standbys, and of partitions that are worked on.
        self._lags: dict[TopicPartition, int] = {}
        #: What the member held when it was last assigned something; what it let go of since may
        #: still be on its disk.
        self._had: frozenset[TopicPartition] = frozenset()
        #: What is reported in all attempts at one join; None if that is not settled yet.
        self._report: Mapping[TopicPartition, int] | None = None
        #: The partitions that are to be worked on here in the end.
        self._expected: AbstractSet[TopicPartition] = frozenset()
        #: The version of reports that all members are known to read.
        self.version = context.config.warm_version
        self._used_version = self.version
        #: The topics that the member subscribed to when it joined: old versions number them.
        self._joined_topics: frozenset[str] = frozenset()
        #: What the leader said last.
        self._orders: Orders | None = None
        self._process_id: UUID | None = None
        self._probe_ms: int | None = None
        #: The next time at which a warm-up may make the group rebalance.
        self._ready_from_ms = 0

    @property
    def is_warm(self) -> bool:
        """Whether the member holds state, and reports it."""
        return self._held is not None

    @property
    def deadline_ms(self) -> int | None:
        """When to make the group rebalance, if nothing else does."""
        if not self._may_ask():
            return None
        ready_ms = self._ready_from_ms if self._ready() else None
        times = [each for each in (self._probe_ms, ready_ms) if each is not None]
        return min(times, default=None)

    def advance(self, now_ms: int) -> None:
        """Make the group rebalance, if a warm-up is ready or it is time to look again."""
        if not self._may_ask():
            return
        ready = self._ready()
        if ready and now_ms >= self._ready_from_ms:
            self._ready_from_ms = now_ms + self._config.ready_interval_ms
            self._outbox.report(
                WarmUpReady(partitions=ready, lag=max(self._lags[p] for p in ready))
            )
            self._state.request_rejoin(f"warm: {_named(ready)} caught up")
        elif self._probe_ms is not None and now_ms >= self._probe_ms:
            self._probe_ms = None
            self._state.request_rejoin("probing: the assignment is not the final one yet")

    def _may_ask(self) -> bool:
        """Whether a rebalance would be news: in the middle of one, or before one, it is not."""
        state = self._state
        return state.phase is Phase.STABLE and state.rejoin_reason is None and not state.is_closing

    # -- what the user tells -------------------------------------------------------------------

    def keep_warm(self, held: Held) -> None:
        """Hold state from now on, and ask `held` at each join for what no task tells of."""
        self._held, self._report = held, None
        if self._state.phase is not Phase.OUT:
            # A join that is not sent yet tells of it, and clears this reason.
            self._state.request_rejoin("warm: this member holds state from now on")

    def note_lag(self, partition: TopicPartition, lag: int) -> bool:
        """Note how far behind a partition's state is; whether the member wants a turn for it."""
        if partition not in self.roles and partition not in self._state.owned:
            return False  # its task has not heard yet that it is over
        self._lags[partition] = lag
        self._stalls.note_lag(partition, lag)
        return self._is_ready(partition)

    def note_failure(self, partition: TopicPartition) -> None:
        """Note that a restore failed."""
        self._stalls.note_failure(partition)

    def _ready(self) -> tuple[TopicPartition, ...]:
        """The warm-ups that have caught up since the leader was last told of them."""
        return tuple(sorted(each for each in self._expected if self._is_ready(each)))

    def _is_ready(self, partition: TopicPartition) -> bool:
        return (
            partition in self._expected
            and partition in self.roles
            and self._is_acceptable(self._lags.get(partition))
            and not self._is_acceptable((self._report or {}).get(partition))
        )

    def _is_acceptable(self, lag: int | None) -> bool:
        return lag is not None and 0 <= lag <= self._settings.acceptable_recovery_lag

    # -- what the leader is told ---------------------------------------------------------------

    def begin_join(self, now_ms: int) -> None:
        """Look anew at what is held when it is reported next.

        All attempts at one join report the same: a coordinator that has the first one already takes
        another report for news, and has the group rebalance for it.
        """
        self._report = None
        self._stalls.look(now_ms)

    def report(self, stopped: AbstractSet[TopicPartition] = frozenset()) -> bytes | None:
        """What to tell the leader; None if the member holds no state.

        `stopped` is what an eager member has let go of to join, so that its state is up to date.
        Raises what the user's `held` raises.
        """
        self._joined_topics = subscribed = self._state.subscribed
        if self._held is None:
            return None
        if self._report is None:
            self._report = self._look(self._held())
            self._used_version = self.version
        running = {
            p: lag if (lag := self._lags.get(p, 0)) > 0 else RUNNING for p in self._owned | stopped
        }
        lags = {
            p: lag for p, lag in (*self._report.items(), *running.items()) if p[0] in subscribed
        }
        from coterie_client.membership.warm_blocks import encode_report

        report = WarmReport(self._process(), lags, self._config.tags)
        return encode_report(report, subscribed, self._used_version, self._config.warm_version)

    def _look(self, held: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """How far behind everything is that may be on the disk."""
        lags = dict.fromkeys(self._had | self._owned | self.roles.keys(), UNKNOWN)
        lags |= held
        lags |= {p: self._lags[p] for p in self.roles if p in self._lags}
        lags = {p: lag if lag >= 0 else UNKNOWN for p, lag in lags.items()}
        stalled = (p for p in self._stalls.stalled if self.roles.get(p) is not Role.STANDBY)
        return lags | {p: STALLED for p in stalled if not self._is_acceptable(lags.get(p))}

    @property
    def _owned(self) -> AbstractSet[TopicPartition]:
        return self._state.owned.keys()

    def _process(self) -> UUID:
        """The process that the member runs in; if none is told, the member counts as one."""
        if self._process_id is None:
            tell = self._sources.process
            number = sum(int(self._sources.random() * 2**32) << shift for shift in _UUID_PARTS)
            self._process_id = tell() if tell is not None else UUID(int=number)
        return self._process_id

    # -- what the leader says ------------------------------------------------------------------

    def take_over(
        self, block: bytes | None, assigned: AbstractSet[TopicPartition], now_ms: int
    ) -> None:
        """Hold what the leader says besides what it has assigned; call it before work begins."""
        state = self._state
        self._orders = orders = self._read_orders(block)
        self._had = frozenset(state.owned) | self.roles.keys() | assigned
        roles: dict[TopicPartition, Role] = {}
        self._expected = frozenset()
        if orders is not None and self.is_warm and not state.is_closing:
            roles = {
                each: Role.WARM_UP if each in orders.warm_ups else Role.STANDBY
                for each in sorted(orders.standbys)
                if each[0] in state.subscribed and each not in assigned
            }
            own_id = state.identity.member_id
            mine = {each for each in roles if orders.targets.get(each) == own_id}
            self._expected = orders.warm_ups | mine
        promoted = tuple(sorted(self.roles.keys() & assigned))
        if promoted:
            self._outbox.report(StandbysPromoted(partitions=promoted, lag=self._worst(promoted)))
        self._hold(roles)
        self._stalls.watch((p for p, role in roles.items() if role is Role.WARM_UP), now_ms)
        self._stalls.forget(assigned)
        self._lags = {p: lag for p, lag in self._lags.items() if p in roles or p in state.owned}
        self._plan_probing(orders, now_ms)

    def _read_orders(self, block: bytes | None) -> Orders | None:
        if block is None:
            return None  # Groups without state do without what reads them.
        from coterie_client.membership.warm_blocks import read_orders

        return read_orders(block, self._joined_topics, self._config.warm_version)

    def withdraw(self, is_gone: Callable[[TopicPartition], bool] = lambda _: True) -> None:
        """Hold these no longer; without a condition, nothing at all."""
        self._hold({p: role for p, role in self.roles.items() if not is_gone(p)})

    def _hold(self, roles: Mapping[TopicPartition, Role]) -> None:
        if roles == self.roles:
            return
        added = tuple(sorted(roles.keys() - self.roles.keys()))
        ended = tuple(sorted(self.roles.keys() - roles.keys()))
        for partition in ended:
            self._lags.pop(partition, None)
        self.roles = dict(roles)
        self._outbox.add(KeepWarm(self.roles.copy(), self._state.identity.generation))
        standbys, warm_ups = (
            tuple(sorted(p for p, each in roles.items() if each is role)) for role in Role
        )
        changed = StandbysChanged(standbys=standbys, warm_ups=warm_ups, added=added, ended=ended)
        self._outbox.report(changed)

    def _worst(self, partitions: Iterable[TopicPartition]) -> int | None:
        """The greatest of their lags; None if one is not known."""
        told = dict(self._report or {}) | self._lags
        lags = [told.get(each, UNKNOWN) for each in partitions]
        return max(lags) if min(lags) >= 0 else None

    def _plan_probing(self, orders: Orders | None, now_ms: int) -> None:
        self._probe_ms = None
        if orders is not None and orders.is_to_look_again:
            # No longer than an interval, in case a clock was set since this was said.
            longest_ms = self._settings.probing_rebalance_interval_ms
            delay_ms = orders.next_rebalance_ms - self._sources.wall_ms()
            delay_ms = min(max(delay_ms, 0), longest_ms)
            self._probe_ms = now_ms + delay_ms
            self._outbox.report(ProbingScheduled(delay_ms=delay_ms))

    def settle_version(self) -> None:
        """Go over to the version that the leader says all members know (version probing)."""
        orders = self._orders
        if orders is None or not self.is_warm:
            return
        used, latest = self._used_version, self._config.warm_version
        version = next_version(used, orders.version, orders.commonly_supported, latest)
        if version == used:
            return
        self.version = version
        self._outbox.report(ReportVersionChanged(version=version, former=used))
        self._state.request_rejoin(f"warm: reports go on in version {version}")


def _named(partitions: Sequence[TopicPartition]) -> str:
    names = [f"{topic}[{number}]" for topic, number in partitions[:_NAMED]]
    more = len(partitions) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
