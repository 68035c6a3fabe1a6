"""Checks of an administrator's arguments, before any request is sent.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from coterie_client import checks
from coterie_client.admin.models import CommittedOffset, NewTopic
from coterie_client.wire.addresses import TopicPartition

__all__ = ["collection", "counts", "names", "offsets_of", "pairs", "strings", "topics"]

_INT64_MAX: Final = 2**63 - 1
_PAIRS: Final = 'a collection of pairs of a topic and a number, such as [("shards", 3)]'


def collection(name: str, what: str, items: object) -> tuple[Any, ...]:
    """Check that `items` is a collection, and not a string, whose letters might pass for names."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        checks.must_be(name, what, items)
    return tuple(items)


def strings(name: str, items: object) -> tuple[str, ...]:
    """Check that `items` are strings; there may be none."""
    found = collection(name, "a collection of strings, and not a single one", items)
    return tuple(checks.text(f"each of {name}", each) for each in found)


def names(items: object) -> tuple[str, ...]:
    """Check that `items` are names of what is asked about; whether they exist, servers say."""
    found = collection("a batch", "a collection of names, and not a single one", items)
    for each in found:
        if not isinstance(each, str):
            checks.must_be("a name", "a string", each)
    return found


def _require_number(name: str, value: object) -> None:
    """Check that something is a whole number; which ones are acceptable, servers say."""
    if isinstance(value, bool) or not isinstance(value, int):
        checks.must_be(name, "a whole number", value)


def topics(items: object) -> dict[str, NewTopic]:
    """Check topics to create, and find them by their names."""
    found = collection("topics", "a collection of NewTopic(...)", items)
    for each in found:
        if not isinstance(each, NewTopic):
            checks.must_be("each of topics", "a NewTopic(...)", each)
        for name, value in (
            ("partitions", each.partitions),
            ("replication_factor", each.replication_factor),
        ):
            if value is not None:
                _require_number(name, value)
    names([each.name for each in found])
    return {each.name: each for each in found}


def counts(partitions: object) -> dict[str, int]:
    """Check that `partitions` maps topics to their numbers of partitions."""
    if not isinstance(partitions, Mapping):
        what = 'a mapping of topics to their numbers of partitions, such as {"shards": 12}'
        checks.must_be("partitions", what, partitions)
    names(tuple(partitions))
    for each in partitions.values():
        _require_number("partitions", each)
    return dict(partitions)


def pairs(items: object) -> tuple[TopicPartition, ...]:
    """Check that `items` are partitions; there may be none."""
    found = collection("partitions", _PAIRS, items)
    if not all(_is_pair(each) for each in found):
        checks.must_be("partitions", _PAIRS, items)
    return found


def offsets_of(offsets: object) -> dict[TopicPartition, CommittedOffset]:
    """Check that `offsets` maps partitions to offsets."""
    what = 'a mapping of partitions to offsets, such as {("shards", 3): 1200}'
    if not isinstance(offsets, Mapping) or not all(_is_pair(each) for each in offsets):
        checks.must_be("offsets", what, offsets)
    return {partition: _committed(offset) for partition, offset in offsets.items()}


def _committed(value: Any) -> CommittedOffset:
    committed = value if isinstance(value, CommittedOffset) else CommittedOffset(value)
    checks.whole("each of offsets", committed.offset, 0, _INT64_MAX)
    return committed


def _is_pair(value: object) -> TypeGuard[TopicPartition]:
    match value:
        case (str(), bool()):
            return False
        case (str(), int() as number) if isinstance(value, tuple):
            return 0 <= number <= checks.INT32_MAX
    return False
