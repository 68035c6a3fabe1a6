"""Requests that ask several shards at once: split, sent, and their answers put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from coterie_protocol import messages as m

__all__ = ["Gathering", "Replies", "Split", "split"]


class Replies(Protocol):
    """Whatever awaits a reply."""

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the reply any more."""
        ...

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        """Take it."""
        ...


#: For each shard its part of the request.
Split = dict[int, Any]


def split(message: Any, shard_of: Callable[[str], int]) -> Split:  # noqa: ANN401  # any request
    """A request for groups by their names, cut into one for each shard."""
    field, name_of = _NAMED[type(message)]
    parts: dict[int, list[Any]] = {}
    for item in getattr(message, field):
        parts.setdefault(shard_of(name_of(item)), []).append(item)
    return {shard: replace(message, **{field: tuple(items)}) for shard, items in parts.items()}


class Gathering:
    """Waits for the answers to all parts of a request and gives the whole one."""

    def __init__(self, request: Any, whole: Replies, parts: int) -> None:  # noqa: ANN401
        self._request = request
        self._whole = whole
        self._missing = parts
        self._answers: list[Any] = []

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the whole answer any more."""
        return self._whole.abandoned

    def part(self) -> Replies:
        """What awaits the answer to one of the parts."""
        return _Part(self)

    def take(self, message: Any) -> None:  # noqa: ANN401  # any response
        """Take the answer to a part."""
        self._answers.append(message)
        self._missing -= 1
        if not self._missing:
            self._whole.reply(_join(self._request, self._answers))


class _Part:
    def __init__(self, gathering: Gathering) -> None:
        self._gathering = gathering

    @property
    def abandoned(self) -> bool:
        return self._gathering.abandoned

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        self._gathering.take(message)


def _join(request: Any, answers: list[Any]) -> Any:  # noqa: ANN401
    """Put answers together, in the order in which the request asks."""
    field, name_of = _ANSWERED[type(request)]
    found = [item for answer in answers for item in getattr(answer, field)]
    errors = [answer for answer in answers if getattr(answer, "error_code", 0)]
    if type(request) in _NAMED:
        asked_field, asked_name_of = _NAMED[type(request)]
        order = {asked_name_of(item): i for i, item in enumerate(getattr(request, asked_field))}
        found.sort(key=lambda item: order[name_of(item)])
    return replace(errors[0] if errors else answers[0], **{field: tuple(found)})


def _group_id(item: Any) -> str:  # noqa: ANN401  # an entry of any of the responses
    found: str = item.group_id
    return found


def _itself(item: str) -> str:
    return item


_NAMED: Final[dict[type[Any], tuple[str, Callable[[Any], str]]]] = {
    m.DeleteGroupsRequest: ("groups_names", _itself),
    m.DescribeGroupsRequest: ("groups", _itself),
    m.OffsetFetchRequest: ("groups", _group_id),
}

_ANSWERED: Final[dict[type[Any], tuple[str, Callable[[Any], str]]]] = {
    m.DeleteGroupsRequest: ("results", _group_id),
    m.DescribeGroupsRequest: ("groups", _group_id),
    m.ListGroupsRequest: ("groups", _group_id),
    m.OffsetFetchRequest: ("groups", _group_id),
}
