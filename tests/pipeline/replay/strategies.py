"""Lines of a group that may say anything that a line may say, in any order."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from coterie_protocol.journal import KINDS
from coterie_protocol.replay import Source

__all__ = ["lines_of_a_group"]

#: Few of each, so that lines are about the same things.
_NAMES = st.sampled_from(["a", "b", "c", ""])
_STATES = st.sampled_from(["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
_HOWS = st.sampled_from(["left", "removed", "session_expired", "rebalance_expired", "?"])
_NUMBERS = st.integers(0, 3) | st.sampled_from([-(2**42) + 1, -1, 10_000, 2**42 - 1])
_PARTITIONS = st.integers(0, 2)


def _values(hint: Any, name: str) -> st.SearchStrategy[Any]:
    """Values for a field of this type and name."""
    by_name = {"state": _STATES, "from_state": _STATES, "how": _HOWS}
    if name in by_name:
        return by_name[name]
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _fields(hint)
    return _composed(typing.get_origin(hint), typing.get_args(hint), name)


_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    int: _NUMBERS, str: _NAMES, bool: st.booleans(), Any: st.booleans(),
}  # fmt: skip


def _composed(origin: Any, arguments: tuple[Any, ...], name: str) -> st.SearchStrategy[Any]:
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return _values(inner, name) | st.none()
    if origin is tuple:
        each = _PARTITIONS if arguments[0] is int else _values(arguments[0], name)
        return st.lists(each, max_size=3)
    assert issubclass(origin, Mapping)
    return st.dictionaries(_NAMES, _values(arguments[1], name), max_size=3)


def _fields(cls: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    hints = typing.get_type_hints(cls)
    return st.fixed_dictionaries(
        {each.name: _values(hints[each.name], each.name) for each in dataclasses.fields(cls)}
    )


def _of_kind(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return _fields(KINDS[kind]).map(lambda values: {**values, "kind": kind})


_LINES = st.one_of(*(_of_kind(kind) for kind in KINDS if kind != "offsets_committed"))


@st.composite
def lines_of_a_group(draw: st.DrawFn) -> list[Source]:
    """Lines of two nodes, by node and number."""
    found = []
    for node in ("n1", "n2"):
        for seq, values in enumerate(draw(st.lists(_LINES, max_size=25)), 1):
            ts = draw(st.integers(0, 40)) * 1_000
            found.append(Source(node, seq, ts, values))
    return found
