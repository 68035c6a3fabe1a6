"""Checks of an administrator's arguments, before any request is sent.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from coterie_client import checks
from coterie_client.admin.models import CommittedOffset
from coterie_client.wire.addresses import TopicPartition

__all__ = ["collection", "offsets_of", "pairs", "strings"]

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
