"""Subscriptions and assignments of members with state, as each version can carry them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from coterie_protocol.streams import (
    LATEST_OFFSET,
    LATEST_VERSION,
    NAMED_TOPOLOGY_VERSION,
    NO_REBALANCE,
    UNKNOWN_OFFSET_SUM,
    UNKNOWN_VERSION,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from tests.support.profiles import mostly_slow

__all__ = ["VERSIONS", "assignment_infos", "oldest_and_newest", "subscription_infos", "tasks"]

VERSIONS: Final = range(1, LATEST_VERSION + 1)

#: For tests that take a while with each version: in the quick run, with these two.
oldest_and_newest = pytest.mark.parametrize(
    "version", mostly_slow((VERSIONS[0], VERSIONS[-1], *VERSIONS[1:-1]), quick=2)
)

_INT8S: Final = st.integers(-(2**7), 2**7 - 1)
_INT32S: Final = st.integers(-(2**31), 2**31 - 1)
_INT64S: Final = st.integers(-(2**63), 2**63 - 1)
#: Numbers that meet each other more often than random ones do.
_SMALL: Final = st.integers(0, 3) | _INT32S
_TEXTS: Final = st.text(st.characters(codec="utf-8"), max_size=20)
#: Names that Java's "modified UTF-8" writes as UTF-8.
_NAMES: Final = st.sampled_from(["orders", "clicks", "a"]) | st.text(
    st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_characters="\0"), max_size=20
)
_PARTITIONS: Final = st.lists(st.tuples(_NAMES, _SMALL), max_size=5, unique=True).map(tuple)


def tasks(version: int) -> st.SearchStrategy[TaskId]:
    """Tasks that a version can name."""
    names = st.sampled_from(["orders", "clicks"]) | _TEXTS.filter(bool)
    topologies = st.none() | names if version >= NAMED_TOPOLOGY_VERSION else st.none()
    return st.builds(TaskId, _SMALL, _SMALL, topologies)


def _since(first: int, version: int, values: st.SearchStrategy[Any], default: Any) -> Any:
    return values if version >= first else st.just(default)


def subscription_infos(version: int) -> st.SearchStrategy[SubscriptionInfo]:
    """Subscriptions of which a version carries everything."""
    sums = st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM])
    if version >= 7:
        sums |= _INT64S
    endpoints = st.none() | _TEXTS.filter(bool)
    latest = st.integers(version, LATEST_VERSION + 2)
    tags = st.dictionaries(_TEXTS, _TEXTS, max_size=4)
    return st.builds(
        SubscriptionInfo,
        process_id=st.uuids(),
        task_offset_sums=st.dictionaries(tasks(version), sums, max_size=12),
        user_endpoint=_since(2, version, endpoints, None),
        unique_field=_since(8, version, _INT8S, 0),
        error_code=_since(9, version, _INT32S, 0),
        client_tags=_since(11, version, tags, {}),
        version=st.just(version),
        latest_supported_version=_since(3, version, latest, UNKNOWN_VERSION),
    )


def assignment_infos(version: int, *, own: bool = False) -> st.SearchStrategy[AssignmentInfo]:
    """Assignments of which a version carries everything, perhaps with Coterie's own fields."""
    hosts = st.dictionaries(st.builds(HostInfo, _NAMES, _INT32S), _PARTITIONS, max_size=4)
    plain = st.builds(
        AssignmentInfo,
        active_tasks=st.lists(tasks(version), max_size=8).map(tuple),
        standby_tasks=st.dictionaries(tasks(version), _PARTITIONS, max_size=6),
        partitions_by_host=_since(2, version, hosts, {}),
        standby_partitions_by_host=_since(6, version, hosts, {}),
        error_code=_since(4, version, _INT32S, 0),
        next_rebalance_ms=_since(7, version, _INT64S, NO_REBALANCE),
        version=st.just(version),
        commonly_supported_version=_since(3, version, _INT32S, UNKNOWN_VERSION),
    )
    return plain.flatmap(_with_own_fields) if own else plain


def _with_own_fields(plain: AssignmentInfo) -> st.SearchStrategy[AssignmentInfo]:
    standbys = sorted(plain.standby_tasks, key=str)
    warmups = st.frozensets(st.sampled_from(standbys)) if standbys else st.just(frozenset())
    targets = st.dictionaries(tasks(plain.version), _TEXTS, max_size=4)
    return st.builds(replace, st.just(plain), warmups=warmups, targets=targets)
