"""What keeps a topic from being made or from growing.

The texts are what a broker of Kafka's sends, because people look them up and clients match them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie_protocol.error_codes import ErrorCode
from coterie_server.step import fitting
from coterie_server.topics.topic_table import LEADER_EPOCH

if TYPE_CHECKING:
    from coterie_server.topics.step import Step, TopicConfig
    from coterie_server.topics.topic_table import TopicTable

__all__ = [
    "CLUSTER_METADATA",
    "DUPLICATE_NAME",
    "REQUEST_LIMIT",
    "TOO_MANY",
    "Problem",
    "Quota",
    "check_epoch",
    "check_name",
    "check_new_name",
    "check_replicas",
    "check_size",
]

#: The log of a KRaft cluster's controllers, which looks like a topic and can't be made by clients.
CLUSTER_METADATA: Final = "__cluster_metadata"

#: How many partitions one request may make; Kafka's controller has the same limit, fixed.
REQUEST_LIMIT: Final = 10_000

_NAME_LENGTH_MAX: Final = 249
_LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class Problem(NamedTuple):
    """Why something can't be done."""

    code: ErrorCode
    text: str | None = None

    @property
    def message(self) -> str | None:
        """The text as it is told, which fits any answer."""
        return self.text and fitting(self.text)


TOO_MANY: Final = Problem(
    ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
)
DUPLICATE_NAME: Final = Problem(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def check_name(name: str) -> Problem | None:
    """Whether a topic could have a name at all."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > _NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {_NAME_LENGTH_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return None
    return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_new_name(table: TopicTable, name: str) -> Problem | None:
    """Whether a new topic can have a name, next to the topics that there are."""
    if name in table.rows:
        return Problem(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = table.lookalike_of(name)
    if other is not None:
        text = f"Topic '{name}' collides with existing topic: {other}"
        return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return check_name(name)


def check_size(config: TopicConfig, partitions: int) -> Problem | None:
    """Whether a topic may have so many partitions; Kafka has no such limit."""
    if partitions <= config.max_partitions:
        return None
    text = f"topic.max.partitions is {config.max_partitions}, and it would have {partitions}."
    return Problem(ErrorCode.POLICY_VIOLATION, text)


def check_replicas(node_id: int, brokers: Sequence[int]) -> Problem | None:
    """Whether a partition can be held by the nodes named, where this node is the only one."""
    intro = "The manual partition assignment includes"
    if not brokers:
        return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{intro} an empty replica list.")
    before = None
    for broker in sorted(brokers):
        if broker != node_id:
            text = f"{intro} broker {broker}, but no such broker is registered."
            return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        if broker == before:
            text = f"{intro} the broker {broker} more than once."
            return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        before = broker
    return None


def check_epoch(epoch: int) -> ErrorCode | None:
    """Whether a client has the leader's epoch right, if it names one (-1 does not).

    One that remembers a cluster that was at this address before may name a later one.  There is no
    earlier one.
    """
    return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > LEADER_EPOCH else None


class Quota:
    """How much more the catalogue can hold, taken piece by piece in the course of one request.

    It counts what was granted, also where the request only asks what could be done.
    """

    __slots__ = ("_partitions", "_step", "_topics")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._topics = len(step.table.rows)
        self._partitions = step.table.partitions

    def take(self, name: str, partitions: int, before: int = 0) -> Problem | None:
        """Grant a topic that had `before` partitions so many, or say why it can't have them."""
        step, config = self._step, self._step.config
        if (problem := check_size(config, partitions)) is not None:
            step.hit_topic_limit("topic.max.partitions", config.max_partitions, name)
            return problem
        if not before and self._topics >= config.max_topics:
            step.hit_topic_limit("max.topics", config.max_topics, name)
            text = f"max.topics is {config.max_topics}, and there are {self._topics} already."
            return Problem(ErrorCode.POLICY_VIOLATION, text)
        in_all = self._partitions + partitions - before
        if in_all > config.max_partitions_in_all:
            step.hit_topic_limit("max.partitions", config.max_partitions_in_all, name)
            text = f"max.partitions is {config.max_partitions_in_all}, and there would be {in_all}."
            return Problem(ErrorCode.POLICY_VIOLATION, text)
        self._topics += not before
        self._partitions = in_all
        return None
