"""Groups whose members report state, with reports and orders as Coterie's members write them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    group_by_topic,
)
from coterie_protocol.streams import (
    NO_REBALANCE,
    AssignmentInfo,
    SubscriptionInfo,
    TopicTasks,
    encode_assignment_info,
    encode_subscription_info,
    join_user_data,
)
from tests.support.group_harness import Client, World

__all__ = ["ordered", "report", "reported", "warm_pair"]

PROCESS = uuid.UUID(int=7)


def report(lags: Mapping[int, int], topic: str = "t", version: int = 11) -> bytes:
    """A member's report on partitions of a topic, as user data."""
    tasks = TopicTasks([topic])
    info = SubscriptionInfo(
        PROCESS,
        {tasks.task_of(topic, number, version): lag for number, lag in lags.items()},
        version=version,
    )
    return join_user_data(b"own", encode_subscription_info(info))


def reported(user_data: bytes | None, owned: Iterable[int] = (), generation: int = -1) -> bytes:
    """A subscription to `t` with such user data."""
    subscription = Subscription(
        topics=("t",),
        user_data=user_data,
        owned_partitions=group_by_topic(("t", number) for number in owned),
        generation_id=generation,
    )
    return encode_subscription(subscription, 2)


def ordered(
    active: Iterable[int],
    standbys: Iterable[int] = (),
    warming: Iterable[int] = (),
    targets: Mapping[int, str] | None = None,
    next_ms: int = NO_REBALANCE,
) -> bytes:
    """An assignment of partitions of `t`, with a leader's orders."""
    tasks = TopicTasks(["t"])
    copies = [*standbys, *warming]
    info = AssignmentInfo(
        active_tasks=tuple(tasks.task_of("t", number) for number in active),
        standby_tasks={tasks.task_of("t", number): (("t", number),) for number in copies},
        warmups=frozenset(tasks.task_of("t", number) for number in warming),
        targets={tasks.task_of("t", number): who for number, who in (targets or {}).items()},
        next_rebalance_ms=next_ms,
    )
    entries = group_by_topic(("t", number) for number in active)
    user_data = join_user_data(None, encode_assignment_info(info))
    return encode_assignment(Assignment(assigned_partitions=entries, user_data=user_data), 1)


def warm_pair(world: World, heir_name: str | None = None) -> tuple[Client, Client]:
    """A stable group: the first member owns all of `t`, and the second warms up for partition 3.

    The second has been 1,234 behind in it and 7 in partition 0, of which it keeps a copy.
    """
    owner = world.member("a", metadata=reported(report(dict.fromkeys(range(4), -2))))
    heir = world.member("b", metadata=reported(report({0: 7, 3: 1_234})), static=heir_name)
    owner.join()
    world.sleep(world.config.initial_rebalance_delay_ms)
    owner.sync({owner: ordered((0, 1, 2, 3))})
    heir.join()
    owner.join()
    orders = {
        owner: ordered((0, 1, 2, 3), targets={3: heir.id}, next_ms=99_000),
        heir: ordered((), standbys=(0,), warming=(3,), targets={3: heir.id}),
    }
    owner.sync(orders)
    heir.sync()
    return owner, heir
