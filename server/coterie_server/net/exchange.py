"""A request and its answer: what the whole server knows a request by, from the socket to the reply.

A connection makes one `Exchange` for each request and keeps it, in the requests' order, until its
answer has been sent.  The node hands it to a shard, the shard to its core; the core names it again
in the outcome that has the reply, and the shard calls `reply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, final

from coterie_protocol import ApiKey, Request, encode_response_in_turns
from coterie_server.net.members import TELLING, Membership, after
from coterie_server.turns import Unfinished, begin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie_server.address import Address
    from coterie_server.net.addresses import Peer
    from coterie_server.net.last_answer import LastAnswer
    from coterie_server.security import Principal
    from coterie_server.turns import Making, Turns

__all__ = ["STOPPING", "Exchange", "Handler", "OnReply", "ReplyPath", "answered"]

#: Why clients are hung up on that wait for what a stopping node does no more.
STOPPING: Final = "the node is stopping"

_NUMBER_BYTES: Final = 4


class OnReply(Protocol):
    """Counts answers; may neither block nor raise."""

    def __call__(self, api: ApiKey, message: Any, received_ms: int, /) -> None:  # noqa: ANN401
        """Take note of an answer that is about to be sent to a request that came then."""


class ReplyPath(Protocol):
    """What an exchange needs of its connection."""

    #: Whether members on it take this node for their coordinator.
    membership: Membership

    @property
    def peer(self) -> Peer:
        """The client's address."""

    @property
    def advertised(self) -> Address:
        """Where clients of the connection's listener are told to connect."""

    @property
    def principal(self) -> Principal:
        """Whom the connection acts for."""

    @property
    def opened_ms(self) -> int:
        """When the connection was made, in the time of the event loop."""

    @property
    def gone(self) -> bool:
        """Whether nothing can be sent any more."""

    @property
    def on_reply(self) -> OnReply | None:
        """What is called for every answer, if anything."""

    @property
    def last_answer(self) -> LastAnswer:
        """What encodes answers."""

    @property
    def turns(self) -> Turns:
        """What finishes long answers."""

    @property
    def answer_max_bytes(self) -> int:
        """How long an answer may get that is made in turns."""

    #: How many answers are being made in turns.
    in_turns: int

    def flush(self, finished_bytes: int) -> None:
        """Send the answers that are ready and behind no other request; one has become ready."""

    def hurry(self) -> None:
        """Tell the requests that can be answered early if others wait behind them."""

    def resume(self, exchange: Exchange, action: Callable[[], None]) -> None:
        """Have done what goes on with a request, in the connection's turn."""

    def authenticate(self, exchange: Exchange) -> None:
        """Take a request to authenticate."""

    def close_for_handler(self, why: str) -> None:
        """Close the connection because the handler says so."""

    def close_for_unencodable(self, request: Request, error: Exception) -> None:
        """Close the connection because an answer does not fit its request."""


@final
class Exchange:
    """One request on one connection, awaiting its reply.

    Replies leave a connection in the order of its requests, whatever order they are made in.
    """

    __slots__ = (
        "_complete",
        "_is_answered",
        "_path",
        "_when_followed",
        "_when_gone",
        "comes_alone",
        "frame",
        "message",
        "received_ms",
        "request",
        "takes_turns",
        "version",
    )

    def __init__(
        self, path: ReplyPath, request: Request, received_ms: int, *, comes_alone: bool = False
    ) -> None:
        self._path = path
        self._when_gone: Callable[[Exchange], object] | None = None
        self._when_followed: Callable[[Exchange], object] | None = None
        self._complete: Callable[[Any], Any] | None = None
        self._is_answered = False
        #: Whether nothing else came or goes on with it: of these each connection has one, at most.
        self.comes_alone = comes_alone
        #: Whether its answer takes turns of the event loop to make.
        self.takes_turns = False
        #: The encoded answer; None until there is one.
        self.frame: bytes | None = None
        self.received_ms = received_ms
        self.request = request
        self.message = request.message
        self.version = request.api_version

    @property
    def client_id(self) -> str:
        """What the client calls itself; empty if it gives no name."""
        return self.request.client_id or ""

    @property
    def host(self) -> str:
        """The client's address as Kafka prints it: `/127.0.0.1`."""
        return self._path.peer.host

    @property
    def principal(self) -> Principal:
        """Whom the client acts for."""
        return self._path.principal

    @property
    def advertised(self) -> Address:
        """Where clients that came in as this one did are told to connect."""
        return self._path.advertised

    @property
    def connected_ms(self) -> int:
        """When the request's connection was made, in the time of the event loop."""
        return self._path.opened_ms

    @property
    def abandoned(self) -> bool:
        """Whether the connection is gone, so that no client waits for the reply."""
        return self._path.gone

    def narrow(self, message: Any, complete: Callable[[Any], Any]) -> None:  # noqa: ANN401  # any request
        """Ask only for a part of what was asked; `complete` makes its answer one to the whole.

        It may return `Unfinished`.
        """
        self.message, self._complete = message, complete

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any of the response dataclasses
        """Answer with a response dataclass, exactly once; nothing happens if the client is gone.

        The message is encoded at once, in the version of the request. One that cannot be encoded
        is a bug of ours: it is logged, and the connection closes, because a client that waits for
        an answer is better off with a new connection than with silence.

        An `Unfinished` message is finished and encoded in the loop's next turns.
        """
        path = self._path
        if path.gone:
            return
        if self._is_answered:
            raise AssertionError(f"a second reply to {self.request.api_key.title}")
        self._is_answered = True
        self._when_followed = None
        request = self.request
        if self._complete is not None:
            try:
                message = begin(self._completed(message, self._complete))
            except Exception as error:  # noqa: BLE001  # as below
                path.close_for_unencodable(request, error)
                return
        if type(message) is Unfinished:
            self._begin_turns()
            path.turns.do(self._finish(message), self)
            self._when_gone = path.turns.forget
            return
        try:
            number = request.correlation_id.to_bytes(_NUMBER_BYTES, signed=True)
            frame = path.last_answer.encode(message, self.version, number)
        except Exception as error:  # noqa: BLE001  # whatever it is, this client must not wait
            path.close_for_unencodable(request, error)
            return
        self._when_gone = None
        self._send(message, frame)

    def _completed(self, message: Any, complete: Callable[[Any], Any]) -> Making[Any]:  # noqa: ANN401
        if type(message) is Unfinished:
            message = yield from message.making
        message = complete(message)
        if type(message) is Unfinished:
            message = yield from message.making
        return message

    def _finish(self, unfinished: Unfinished) -> Iterator[None]:
        request = self.request
        try:
            message = yield from unfinished.making
            frame = yield from self._write(message)
        except Exception as error:  # noqa: BLE001  # as above
            self._path.close_for_unencodable(request, error)
            return
        if frame is not None:
            self._send(message, frame)

    def _write(self, message: Any) -> Making[bytes | None]:  # noqa: ANN401  # as above
        """The frame; None if it got so long that the connection was closed instead.

        A group that is named thousands of times in a short request, say, would take gigabytes.
        """
        path = self._path
        writing = encode_response_in_turns(message, self.version, self.request.correlation_id)
        while True:
            try:
                written_bytes = next(writing)
            except StopIteration as written:
                frame: bytes = written.value
                return frame
            if written_bytes > path.answer_max_bytes:
                path.close_for_handler(
                    "an answer got longer than connection.write.buffer.max.bytes"
                )
                return None
            yield

    def _send(self, message: Any, frame: bytes) -> None:  # noqa: ANN401  # as above
        path = self._path
        self.frame = frame
        if self.takes_turns:
            path.in_turns -= 1
        api = self.request.api_key
        if api in TELLING:
            path.membership = after(api, message, path.membership)
        if path.on_reply is not None:
            path.on_reply(api, message, self.received_ms)
        path.flush(len(frame))

    def take_turns(self) -> None:
        """Note that the answer takes turns of the event loop to make.

        Until it is there, the connection has no further request handled: what is begun holds far
        more memory than what was asked, and a client that asks a hundred times at once would have
        all others wait for a hundred answers.  Behind the answer it is too late to ask for any.
        """
        if not self._is_answered:
            self._begin_turns()

    def _begin_turns(self) -> None:
        if not self.takes_turns:
            self.takes_turns = True
            self._path.in_turns += 1

    def resume(self, action: Callable[[], None]) -> None:
        """Have done what goes on with the request, which had to wait; not if the client has gone.

        Many may have waited for the same thing.  So it is done in a later turn of the event loop,
        by the same division of its time as holds for requests that come, and before those that its
        client has sent since.
        """
        self.comes_alone = False  # Others of its connection may go on with it.
        self._path.resume(self, action)

    def when_gone(self, forget: Callable[[Exchange], object] | None) -> None:
        """Have `forget` called, at once, if the connection goes before the reply is made.

        Code that keeps an exchange for longer than a moment, though only its client waits for it,
        has to ask for this, or what clients send and leave behind piles up. `forget` may be called
        from within anything that concerns the connection, also from within the reply to another
        exchange: it forgets the exchange and does nothing else. Only the last that was asked for
        is called, and None takes it back. Behind the reply nothing is left to forget, but what
        finishes it.
        """
        if self._is_answered:
            return
        self._when_gone = forget
        if self._path.gone:
            self.abandon()

    def abandon(self) -> None:
        """Learn that the connection is gone."""
        forget, self._when_gone = self._when_gone, None
        if forget is not None and self.frame is None:
            forget(self)

    @property
    def is_patient(self) -> bool:
        """Whether it waits only for as long as no other request has to."""
        return self._when_followed is not None

    def when_followed(self, answer: Callable[[Exchange], object] | None) -> None:
        """Have `answer` called, maybe at once, if a request of another kind waits behind this one.

        Answers keep the order of requests, so whatever a client sends next waits as well.  None
        takes it back.
        """
        self._when_followed = answer
        if answer is not None:
            self._path.hurry()

    def be_followed(self) -> None:
        """Learn that another request waits."""
        answer, self._when_followed = self._when_followed, None
        if answer is not None:
            answer(self)

    def authenticate(self) -> None:
        """Let the connection answer, as it is what authenticates its client."""
        self._path.authenticate(self)

    def close(self, why: str) -> None:
        """Close the whole connection instead of answering."""
        self._path.close_for_handler(why)


def answered(path: ReplyPath, frame: bytes) -> Exchange:
    """A request that could not be read and has its answer already; it waits for those before it."""
    exchange = Exchange(path, Request(ApiKey.API_VERSIONS, 0, 0, None, None), 0)
    exchange.frame = frame
    return exchange


class Handler(Protocol):
    """Answers the requests of a listener's connections."""

    def handle(self, exchange: Exchange) -> None:
        """Take a request; its reply may be made now or at any later time.

        It never blocks and never raises, and it is never called from within `Exchange.reply`:
        a handler may release replies in the middle of its work.
        """
