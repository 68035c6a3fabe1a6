"""The replies of a step, which may be as many as a group has members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from coterie_server.turns import Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from coterie_server.serving.context import PendingRequest
    from coterie_server.step import Request
    from coterie_server.turns import Turns

__all__ = ["reply_to_all"]

Q = TypeVar("Q", bound="PendingRequest")

#: How many members are answered in one turn of the event loop when a rebalance goes on: each answer
#: is encoded and written to a connection.
_AT_ONCE: Final = 100


def reply_to_all(
    replies: Sequence[tuple[Request, Any]], waiting: dict[Request, Q], turns: Turns
) -> None:
    """Answer those of the requests that still wait; if they are many, in the loop's next turns."""
    if len(replies) == 1:  # as nearly always
        request, message = replies[0]
        if (asked := waiting.pop(request, None)) is not None:
            asked.reply(message)
        return
    answered = [(waiting.pop(r), message) for r, message in replies if r in waiting]
    if len(answered) <= _AT_ONCE:
        for pending, message in answered:
            pending.reply(message)
    else:
        turns.do(_reply_to_many(answered))


def _reply_to_many(replies: Iterable[tuple[PendingRequest, Any]]) -> Iterator[None]:
    piece = Piece(_AT_ONCE)
    for pending, message in replies:
        pending.reply(message)
        if piece.is_whole():
            yield
