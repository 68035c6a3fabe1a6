"""What a member says when it joins: what it wants and what it owns, once for each assignor."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coterie_assignors.base import Assignor, Claim, Partitions, RebalanceProtocol
from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_protocol.consumer import Subscription, encode_subscription
from coterie_protocol.messages.join_group import JoinGroupRequestProtocol

__all__ = ["common_protocol", "offers"]


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The highest protocol that all of a member's assignors support.

    So a group goes over from eager to cooperative in two rolling bounces: in the first, members
    list both kinds and stay eager; in the second, they drop the eager one.
    """
    if not assignors:
        checks.must_be("assignors", "a list of assignors, at least one", assignors)
    common = set(RebalanceProtocol)
    for assignor in assignors:
        common &= set(assignor.protocols)
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ConfigurationError(
            f"assignors must have a rebalance protocol in common, and these have none: {names}"
        )
    return max(common, key=lambda protocol: protocol.value)


def offers(
    assignors: Sequence[Assignor],
    topics: Collection[str],
    had: Claim,
    *,
    keeps: bool,
    refused: Partitions = (),
    rack: str | None,
) -> tuple[JoinGroupRequestProtocol, ...]:
    """The member's subscription in each assignor's terms, the preferred one first.

    `had` is what the member owned last, and `keeps` tells whether it still does;
    `refused` is what it can't work on.
    """
    return tuple(
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=encode_subscription(
                Subscription(
                    topics=tuple(sorted(topics)),
                    user_data=assignor.subscription_user_data(topics, had.owned, had.generation),
                    owned_partitions=had.owned if keeps else (),
                    generation_id=had.generation,
                    rack_id=rack,
                    refused_partitions=refused,
                )
            ),
        )
        for assignor in assignors
    )
