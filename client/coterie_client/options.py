"""The options of a `Group`: their defaults, and what is checked before anything is connected."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, TypeAlias
from uuid import UUID, uuid4

from coterie_assignors import (
    UNKNOWN,
    Assignor,
    CooperativeStickyAssignor,
    WarmSettings,
)
from coterie_client import checks
from coterie_client.clock import asleep_ms
from coterie_client.errors import ConfigurationError
from coterie_client.membership import Sources
from coterie_client.reporting import OnEvent
from coterie_client.wire import Bootstrap, Dial, Network, Security
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.callables import is_async, require_async
from coterie_client.work.policies import OnStall, Policy
from coterie_client.work.supervisor import SupervisorOptions

__all__ = [
    "assignors_or_default",
    "default_sources",
    "leaves_when_closed",
    "network_of",
    "plain_hook",
    "registration_ms",
    "sources_or_default",
    "supervisor_options",
]

_LAG_MAX: Final = 2**63 - 1

#: The sources of groups that are given none; a virtual world sets it for all that runs in it.
default_sources: ContextVar[Sources | None] = ContextVar("coterie_default_sources", default=None)

#: What a user's `held` returns: the lag of each partition whose state is on disk, None if unknown.
Held: TypeAlias = Callable[[], Mapping[TopicPartition, int | None]]


@lru_cache(maxsize=1)
def _id_of_process(_pid: int) -> UUID:
    return uuid4()


_OS_SOURCES: Final = Sources(
    random=random.random,  # for jitter
    wall_ms=lambda: time.time_ns() // 1_000_000,
    host=socket.gethostname(),
    asleep_ms=asleep_ms,
    process=lambda: _id_of_process(os.getpid()),  # a fork is another process
)


def leaves_when_closed(leave_on_close: object, instance: str | None) -> bool:
    """Whether a member leaves its group when it is closed."""
    if leave_on_close is None:
        # A static member comes back under its name, and finds its partitions waiting for it.
        return instance is None
    return checks.flag("leave_on_close", leave_on_close)


def network_of(
    bootstrap: Bootstrap, security: Security, client_id: str, dial: Dial | None, sources: Sources
) -> Network:
    """The connections of a member."""
    return Network(
        bootstrap, security=security, client_id=client_id, dial=dial, random=sources.random
    )


def registration_ms(timeout_s: float | None, instance: str | None) -> int:
    """How long a static member may be away before its place is given up, as requests have it."""
    if timeout_s is None:
        return -1
    what = "a number of seconds, 0 or more"
    checks.number("registration_timeout", what, timeout_s)
    if not 0 <= timeout_s < float("inf"):
        checks.must_be("registration_timeout", what, timeout_s)
    if instance is None:
        raise ConfigurationError(
            "registration_timeout must come with an instance: a dynamic member has no place"
        )
    return checks.milliseconds("registration_timeout", timeout_s) if timeout_s else 0


def sources_or_default(sources: Sources | None) -> Sources:
    """The sources of randomness and of the date."""
    if sources is not None:
        return checks.instance_of("sources", Sources, "a Sources", sources)
    return default_sources.get() or _OS_SOURCES


def assignors_or_default(assignors: Sequence[Assignor] | None) -> tuple[Assignor, ...]:
    """The assignors, the preferred one first."""
    if assignors is None:
        return (CooperativeStickyAssignor(),)
    what = "a list of assignors, at least one"
    if not isinstance(assignors, Iterable):
        checks.must_be("assignors", what, assignors)
    given = tuple(assignors)
    if not given:
        checks.must_be("assignors", what, assignors)
    for each in given:
        if not isinstance(each, Assignor):
            checks.must_be("each of assignors", "an Assignor, and not its class", each)
    return given


def warm_settings(settings: WarmSettings | None) -> WarmSettings | None:
    """How partitions with state move, if the user says so."""
    if settings is None:
        return None
    return checks.instance_of("warm", WarmSettings, "a WarmSettings", settings)


def held_lags(restore: object, held: Held | None) -> Callable[[], dict[TopicPartition, int]] | None:
    """What to ask at each join for the state on disk; None for a member that keeps none.

    It is asked once here, so that mistakes show at once.
    """
    if restore is None:
        if held is not None:
            raise ConfigurationError("held must be given with warm, which keeps that state")
        return None
    require_async(restore, "warm", "a Standby")
    if held is None:
        return dict
    checks.plain_callable("held", held)
    if is_async(held):
        raise ConfigurationError("held must be a plain function: it is called and not awaited")

    def lags() -> dict[TopicPartition, int]:
        return _checked_lags(held())

    lags()
    return lags


def _checked_lags(held: object) -> dict[TopicPartition, int]:
    if not isinstance(held, Mapping):
        checks.must_be("held()", "a mapping of (topic, number) to lags", held)
    lags: dict[TopicPartition, int] = {}
    for key, lag in held.items():
        match key:
            case (str() as topic, int() as number) if topic and 0 <= number <= checks.INT32_MAX:
                pass
            case _:
                checks.must_be("each key of held()", "a topic and the number of a partition", key)
        if lag is None:
            lags[topic, number] = UNKNOWN
        else:
            what = f"the lag of {topic}[{number}] in held()"
            lags[topic, number] = checks.whole(what, lag, 0, _LAG_MAX)
    return lags


def plain_hook(on_event: OnEvent | None) -> OnEvent | None:
    """The user's hook, if there is one and it can be called without being awaited."""
    if on_event is None:
        return None
    checks.plain_callable("on_event", on_event)
    if is_async(on_event):
        raise ConfigurationError(
            "on_event must be a plain function, which may put the event into a queue: it is called"
            " and not awaited."
        )
    return on_event


def supervisor_options(
    on_error: Policy, deadline_s: float | None, on_stall: OnStall
) -> SupervisorOptions:
    """What `run` does about work that fails or stalls."""
    # `Restart` without its brackets is refused now, and not when something fails.
    if not isinstance(on_error, Policy):
        checks.must_be("on_error", "a Restart(), Release() or Stop()", on_error)
    if on_stall not in ("report", "restart", "release"):
        checks.must_be("on_stall", "'report', 'restart' or 'release'", on_stall)
    if deadline_s is not None:
        deadline_s = checks.seconds("progress_deadline", deadline_s)
    elif on_stall != "report":
        raise ConfigurationError(
            f"progress_deadline must be given with on_stall={on_stall!r}, or nothing would stall"
        )
    return SupervisorOptions(on_error=on_error, progress_deadline=deadline_s, on_stall=on_stall)
