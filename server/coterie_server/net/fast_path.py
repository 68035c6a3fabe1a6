"""The fast path: requests that are answered at once, and that clients send again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from coterie_protocol import ApiKey, ProtocolError, Request, decode_request
from coterie_server.net.last_answer import LastAnswer
from coterie_server.net.members import after_heartbeat

if TYPE_CHECKING:
    from coterie_server.net.addresses import Peer
    from coterie_server.net.exchange import OnReply
    from coterie_server.net.members import Membership
    from coterie_server.security import Principal

__all__ = ["API", "FastAnswer", "FastAnswers", "FastPath", "Sender", "by_api"]


class Sender(Protocol):
    """The connection that a request came on, as far as its rights depend on it."""

    @property
    def peer(self) -> Peer:
        """The client's address."""

    @property
    def principal(self) -> Principal:
        """Whom it acts for."""


class AnsweredSender(Sender, Protocol):
    """As far as its answers are counted."""

    #: Whether members on it take this node for their coordinator.
    membership: Membership

    @property
    def on_reply(self) -> OnReply | None:
        """What is called for every answer, if anything."""


#: Answers a request at once, or with None: then it is handled like any other.
FastAnswer = Callable[[Any, Sender], Any]

#: What answers which requests at once, by the bytes that name their API.
FastAnswers = Mapping[bytes, FastAnswer]

#: Where a request has its API.
API: Final = slice(0, 2)
#: Where it has the number that joins it to its answer, and what is around that.
_BEFORE: Final = slice(0, 4)
_NUMBER: Final = slice(4, 8)
_BEHIND: Final = slice(8, None)

#: A longer request is not remembered: a client might make each of its connections hold as much as
#: the largest request. Real heartbeats have some hundred bytes.
_REMEMBERED_MAX_BYTES: Final = 4096


def by_api(answers: Mapping[ApiKey, FastAnswer]) -> FastAnswers:
    """What answers which requests at once."""
    return {int(api).to_bytes(API.stop): answer for api, answer in answers.items()}


@final
class FastPath:
    """The requests of one connection that are answered at once.

    All heartbeats of a member in one generation are the same bytes, but for the number by which
    the client knows the answer.  So the last one is remembered with its message, and a request
    like it is not decoded again; nor is an answer encoded again that is the same as the last.
    """

    __slots__ = ("_answer", "_answers", "_before", "_behind", "_last_answer", "_request")

    _request: Request
    _answer: FastAnswer

    def __init__(self, answers: FastAnswers) -> None:
        self._answers = answers
        self._before = b""
        self._behind: bytes | None = None
        self._last_answer = LastAnswer()

    def answer(self, payload: bytes, sender: AnsweredSender, now: float) -> bytes | None:
        """The frame with the answer, which is counted; None if it can't be had at once."""
        is_known = payload[_BEHIND] == self._behind and payload[_BEFORE] == self._before
        if not is_known and not self._read(payload):
            return None
        request = self._request
        message = self._answer(request.message, sender)
        if message is None:
            return None
        frame = self._last_answer.encode(message, request.api_version, payload[_NUMBER])
        sender.membership = after_heartbeat(message.error_code)
        if sender.on_reply is not None:
            sender.on_reply(request.api_key, message, int(now * 1000))
        return frame

    def forget(self) -> None:
        """Forget the last request and its answer."""
        self._before, self._behind, self._last_answer = b"", None, LastAnswer()

    def _read(self, payload: bytes) -> bool:
        """Take in a request that is not like the last; False if the fast path is not for it."""
        if len(payload) > _REMEMBERED_MAX_BYTES:
            return False
        answer = self._answers.get(payload[API])
        if answer is None:
            return False
        try:
            self._request = decode_request(payload)
        except ProtocolError:
            return False  # what is wrong is found again, and dealt with, the usual way
        self._before, self._behind = payload[_BEFORE], payload[_BEHIND]
        self._answer = answer
        return True
