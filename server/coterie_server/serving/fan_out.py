"""Requests that ask several shards at once: divided, and their answers put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m

if TYPE_CHECKING:
    from coterie_server.serving.context import PendingRequest

__all__ = ["ask_all", "divide"]


def divide(request: PendingRequest, shard_of: Callable[[str], int]) -> dict[int, PendingRequest]:
    """What to hand to each shard of a request that names groups: it lists those of that shard."""
    field, name_of = _NAMED[type(request.message)]
    items: dict[int, list[Any]] = {}
    for item in getattr(request.message, field):
        items.setdefault(shard_of(name_of(item)), []).append(item)
    if len(items) <= 1:
        return {next(iter(items), 0): request}
    return _parts(
        request,
        {shard: replace(request.message, **{field: tuple(each)}) for shard, each in items.items()},
    )


def ask_all(request: PendingRequest, shards: Sequence[int]) -> dict[int, PendingRequest]:
    """What to hand to each of some shards of a request that is about all groups."""
    if len(shards) == 1:
        return {shards[0]: request}
    return _parts(request, dict.fromkeys(shards, request.message))


def _parts(whole: PendingRequest, messages: Mapping[int, Any]) -> dict[int, PendingRequest]:
    answers = _Answers(whole, len(messages))
    return {shard: _Part(answers, message) for shard, message in messages.items()}


class _Answers:
    """Collects the answers to all parts of a request, and then gives the whole one."""

    __slots__ = ("_found", "_missing", "whole")

    def __init__(self, whole: PendingRequest, parts: int) -> None:
        self.whole = whole
        self._missing = parts
        self._found: list[Any] = []

    def add(self, message: Any) -> None:  # noqa: ANN401  # any response
        """Take the answer to a part."""
        self._found.append(message)
        self._missing -= 1
        if not self._missing:
            self.whole.reply(_join(self.whole.message, self._found))


class _Part:
    """What one shard is asked of a request; a `PendingRequest` like the whole."""

    __slots__ = ("_answers", "client_id", "host", "message", "version")

    def __init__(self, answers: _Answers, message: Any) -> None:  # noqa: ANN401  # any request
        whole = answers.whole
        self._answers = answers
        self.message = message
        self.version = whole.version
        self.client_id = whole.client_id
        self.host = whole.host

    @property
    def connected_ms(self) -> int:
        return self._answers.whole.connected_ms

    @property
    def abandoned(self) -> bool:
        return self._answers.whole.abandoned

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        self._answers.add(message)

    def close(self, why: str) -> None:
        self._answers.whole.close(why)


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


#: Where each request names groups, and where its response does.
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
