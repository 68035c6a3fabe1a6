"""Requests that ask several shards, or about very many groups: divided, and answered as one.

A request that names groups is handed out in batches, each divided by shard, and the next one goes
out when all of the batch before is answered.  So between two batches others have their turn, and
what one of them changes is durable before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.turns import AT_ONCE, Piece, Unfinished, begin, each

if TYPE_CHECKING:
    from coterie_server.net import Exchange
    from coterie_server.serving.context import PendingRequest
    from coterie_server.turns import Making, OneByOne

__all__ = ["BATCH", "CallSoon", "HandOut", "ask_all", "divide", "in_turns"]

#: How many groups are asked for at once; to delete so many takes some milliseconds.
BATCH: Final = 250
#: How many names are looked at in one turn of the event loop to find their shards.
_NAMES_AT_ONCE: Final = 5000

#: Hands a part of a request to a shard.
HandOut = Callable[[int, "PendingRequest"], None]


class CallSoon(Protocol):
    """Calls something in the event loop's next turn."""

    def __call__(self, action: Callable[[], None], /, *, whoever_goes: bool = False) -> object:
        """Call it also if the client has gone by then, if that is wanted."""


def in_turns(exchange: Exchange, parts: OneByOne) -> CallSoon:
    """Has what is left of a request handed out when its turn comes."""

    def call_soon(action: Callable[[], None], /, *, whoever_goes: bool = False) -> None:
        exchange.take_turns()
        parts.call_soon(action)
        exchange.when_gone(None if whoever_goes else lambda _: parts.forget(action))

    return call_soon


def divide(
    request: PendingRequest,
    shard_of: Callable[[str], int],
    hand_out: HandOut,
    call_soon: CallSoon,
) -> None:
    """Hand to each shard what concerns it of a request that names groups."""
    named = _NAMED[type(request.message)]
    asked = getattr(request.message, named.field)
    # What is named thousands of times is found once: its answer may be far longer than its name.
    items = tuple(dict.fromkeys(asked))
    if named.is_once_each:
        asked = items
    if len(asked) == len(items) <= BATCH:
        shards = {shard_of(named.name_of(item)) for item in items}
        if len(shards) <= 1:
            hand_out(next(iter(shards), 0), request)
            return
    division = _Division(request, items, asked, shard_of, hand_out, call_soon)
    if len(items) > BATCH:
        call_soon(division.go_on)  # behind those that were begun
    else:
        division.go_on()


def ask_all(
    request: PendingRequest, counts: Mapping[int, int], hand_out: HandOut, call_soon: CallSoon
) -> None:
    """Ask shards what is asked about all groups; `counts` says how many each of them has."""
    whole = _Round(request, counts, hand_out, call_soon)
    if sum(counts.values()) > AT_ONCE:
        call_soon(whole.go_on)  # as above
    else:
        whole.go_on()


class _Round:
    """A request about all groups, handed to one shard after the other."""

    def __init__(
        self,
        request: PendingRequest,
        counts: Mapping[int, int],
        hand_out: HandOut,
        call_soon: CallSoon,
    ) -> None:
        self._request, self._hand_out, self._call_soon = request, hand_out, call_soon
        self._shards, self._last = iter(enumerate(counts.items())), len(counts) - 1
        self._batch = _Batch(
            len(counts), lambda answers: request.reply(begin(_join_lists(answers)))
        )

    def go_on(self) -> None:
        """Ask shards until they have had enough for a turn; unless the client has gone."""
        request, piece = self._request, Piece()
        for number, (shard, count) in () if request.abandoned else self._shards:
            self._hand_out(shard, _Part(request, request.message, number, self._batch))
            if piece.is_whole(count) and number < self._last:
                self._call_soon(self.go_on)
                return


class _Batch:
    """Collects the answers to several parts, and passes them on when all are there."""

    __slots__ = ("_answers", "_missing", "_pass_on")

    def __init__(self, parts: int, pass_on: Callable[[list[Any]], None]) -> None:
        self._answers: list[Any] = [None] * parts
        self._missing = parts
        self._pass_on = pass_on

    def add(self, number: int, answer: Any) -> None:  # noqa: ANN401  # any response
        """Take the answer to a part."""
        self._answers[number] = answer
        self._missing -= 1
        if not self._missing:
            self._pass_on(self._answers)


class _Part:
    """What one shard is asked of a request; a `PendingRequest` like the whole."""

    __slots__ = (
        "_batch",
        "_number",
        "_whole",
        "client_id",
        "host",
        "message",
        "principal",
        "version",
    )

    def __init__(
        self,
        whole: PendingRequest,
        message: Any,  # noqa: ANN401  # any request
        number: int,
        batch: _Batch,
    ) -> None:
        self._whole = whole
        self._number = number
        self._batch = batch
        self.message = message
        self.version = whole.version
        self.client_id = whole.client_id
        self.host = whole.host
        self.principal = whole.principal

    @property
    def connected_ms(self) -> int:
        return self._whole.connected_ms

    @property
    def abandoned(self) -> bool:
        return self._whole.abandoned

    def resume(self, action: Callable[[], None]) -> None:
        self._whole.resume(action)

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        self._batch.add(self._number, message)

    def close(self, why: str) -> None:
        self._whole.close(why)


class _PartOfChange(_Part):
    """A part of what is carried out to its end once it has begun, also if the client has gone."""

    __slots__ = ("_call_soon",)

    def __init__(
        self,
        whole: PendingRequest,
        message: Any,  # noqa: ANN401  # any request
        number: int,
        batch: _Batch,
        call_soon: CallSoon,
    ) -> None:
        super().__init__(whole, message, number, batch)
        self._call_soon = call_soon

    @property
    def abandoned(self) -> bool:
        return False

    def resume(self, action: Callable[[], None]) -> None:
        """Go on in turns of its own: those of its connection end with that."""
        self._call_soon(action, whoever_goes=True)


class _Division:
    """A request that names groups, handed out in batches."""

    def __init__(
        self,
        whole: PendingRequest,
        items: tuple[Any, ...],
        asked: tuple[Any, ...],
        shard_of: Callable[[str], int],
        hand_out: HandOut,
        call_soon: CallSoon,
    ) -> None:
        self._whole = whole
        #: What is to be answered, in order, of which the items are each once.
        self._asked = asked
        self._named = named = _NAMED[type(whole.message)]
        self._items = items
        self._hand_out = hand_out
        self._call_soon = call_soon
        self._batches = _batches(map(named.name_of, items), shard_of)
        #: The answers to the parts, each with the places of its items.
        self._answered: list[tuple[list[int], Any]] = []
        #: Whether it is carried out to its end, as it is by Kafka, also if the client has gone.
        self._must_end = False

    def go_on(self) -> None:
        """Hand out the next batch, if there is one ready."""
        if self._whole.abandoned and not self._must_end:
            return
        batch = next(self._batches, None)
        if batch is None:
            self._whole.reply(begin(self._join()))
        elif batch:
            self._hand_out_batch(batch)
        else:
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        self._call_soon(self.go_on, whoever_goes=self._must_end)

    def _hand_out_batch(self, places: list[tuple[int, list[int]]]) -> None:
        self._must_end = self._named.is_change

        def take(answers: list[Any]) -> None:
            self._answered += zip((its for _, its in places), answers, strict=True)
            if len(self._items) > BATCH:
                self._go_on_soon()
            else:
                self.go_on()

        batch = _Batch(len(places), take)
        for number, (shard, its) in enumerate(places):
            items = tuple(self._items[each] for each in its)
            message = replace(self._whole.message, **{self._named.field: items})
            self._hand_out(shard, self._part(message, number, batch))

    def _part(self, message: Any, number: int, batch: _Batch) -> _Part:  # noqa: ANN401  # any request
        if self._must_end:
            return _PartOfChange(self._whole, message, number, batch, self._call_soon)
        return _Part(self._whole, message, number, batch)

    def _join(self) -> Making[Any]:
        """The answer for all items, in the order in which the request names them, and as often."""
        piece = Piece()
        joined: list[Any] = [None] * len(self._items)
        for places, part in self._answered:
            answer = (yield from part.making) if isinstance(part, Unfinished) else part
            for place, item in zip(places, getattr(answer, self._named.answered), strict=True):
                joined[place] = item
            if piece.is_whole(len(places)):
                yield
        if len(self._asked) > len(joined):
            answers = dict(zip(self._items, joined, strict=True))
            joined = list((yield from each(self._asked, answers.__getitem__, Piece())))
        return self._named.response(**{self._named.answered: tuple(joined)})


def _batches(
    names: Iterable[str], shard_of: Callable[[str], int]
) -> Iterator[list[tuple[int, list[int]]]]:
    """Shards, each with the places of its names, batch by batch.  Empty ones are to take time."""
    places: dict[int, list[int]] = {}
    piece = Piece(_NAMES_AT_ONCE)
    for place, name in enumerate(names):
        places.setdefault(shard_of(name), []).append(place)
        if piece.is_whole():
            yield []
    batch: list[tuple[int, list[int]]] = []
    piece = Piece(BATCH)
    for shard, its in places.items():
        for some in (its[begin_at : begin_at + BATCH] for begin_at in range(0, len(its), BATCH)):
            batch.append((shard, some))
            if piece.is_whole(len(some)):
                yield batch
                batch = []
    if batch:
        yield batch


def _join_lists(parts: Iterable[Any]) -> Making[m.ListGroupsResponse]:
    """All groups; or an error, as a list that lacks groups would look like one that does not."""
    piece = Piece()
    groups: list[m.ListedGroup] = []
    for part in parts:
        answer = (yield from part.making) if isinstance(part, Unfinished) else part
        if error := answer.error_code:
            if error == ErrorCode.NOT_COORDINATOR:
                # Nobody is the coordinator of a list, so its clients don't try again for that.
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return m.ListGroupsResponse(error_code=error, groups=())
        groups += answer.groups
        if piece.is_whole(len(answer.groups)):
            yield
    return m.ListGroupsResponse(groups=tuple(groups))


class _Named(NamedTuple):
    """Where a request names groups, and where its response has what it says of each."""

    field: str
    name_of: Callable[[Any], str]
    response: type[Any]
    answered: str
    #: Whether a group that is named twice is answered once.
    is_once_each: bool = False
    #: Whether what is begun must not end half-way.
    is_change: bool = False


def _group_id(item: Any) -> str:  # noqa: ANN401  # an entry of any of the responses
    found: str = item.group_id
    return found


def _itself(item: str) -> str:
    return item


_NAMED: Final[dict[type[Any], _Named]] = {
    m.DeleteGroupsRequest: _Named(
        "groups_names",
        _itself,
        m.DeleteGroupsResponse,
        "results",
        is_once_each=True,
        is_change=True,
    ),
    m.DescribeGroupsRequest: _Named("groups", _itself, m.DescribeGroupsResponse, "groups"),
    m.OffsetFetchRequest: _Named("groups", _group_id, m.OffsetFetchResponse, "groups"),
}
