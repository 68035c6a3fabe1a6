"""The fast path: requests that are answered at once, and that clients send again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from coterie_protocol import ApiKey, ProtocolError, Request, decode_request, encode_response

if TYPE_CHECKING:
    from coterie_server.net.addresses import Peer
    from coterie_server.security import Principal

__all__ = ["FastAnswer", "FastAnswers", "FastPath", "Sender"]


class Sender(Protocol):
    """The connection that a request came on, as far as its rights depend on it."""

    @property
    def peer(self) -> Peer:
        """The client's address."""

    @property
    def principal(self) -> Principal:
        """Whom it acts for."""


#: Answers a request at once, or with None: then it is handled like any other.
FastAnswer = Callable[[Any, Sender], Any]

#: Where a request has its API, and both it and its answer's frame the number that joins them.
_API: Final = slice(0, 2)
_BEFORE: Final = slice(0, 4)
_NUMBER: Final = slice(4, 8)
_BEHIND: Final = slice(8, None)

#: A longer request is not remembered: a client might make each of its connections hold as much as
#: the largest request. Real heartbeats have some hundred bytes.
_REMEMBERED_MAX_BYTES: Final = 4096


class FastAnswers:
    """What answers which requests at once."""

    def __init__(self, answers: Mapping[ApiKey, FastAnswer]) -> None:
        self._answers = {int(api).to_bytes(_API.stop): each for api, each in answers.items()}

    def find(self, payload: bytes) -> FastAnswer | None:
        """What answers such a request, if anything does."""
        return self._answers.get(payload[_API])


@final
class FastPath:
    """The requests of one connection that are answered at once.

    All heartbeats of a member in one generation are the same bytes, but for the number by which
    the client knows the answer.  So the last one is remembered with its message, and a request
    like it is not decoded again; nor is an answer encoded again that is the same as the last.
    """

    __slots__ = ("_answer", "_answers", "_before", "_behind", "_frame", "_message", "_request")

    _request: Request
    _answer: FastAnswer
    _frame: bytes

    def __init__(self, answers: FastAnswers) -> None:
        self._answers = answers
        self._before = b""
        self._behind: bytes | None = None
        self._message: Any = None

    def answer(self, payload: bytes, sender: Sender) -> tuple[bytes, ApiKey, Any] | None:
        """The frame with the answer, and what is in it; None if it can't be had at once."""
        is_known = payload[_BEHIND] == self._behind and payload[_BEFORE] == self._before
        if not is_known and not self._read(payload):
            return None
        request = self._request
        message = self._answer(request.message, sender)
        if message is None:
            return None
        if message is not self._message:
            self._frame = encode_response(message, request.api_version, 0)
            self._message = message
        frame = self._frame
        return frame[_BEFORE] + payload[_NUMBER] + frame[_BEHIND], request.api_key, message

    def forget(self) -> None:
        """Forget the last request and its answer."""
        self._before, self._behind, self._message = b"", None, None

    def _read(self, payload: bytes) -> bool:
        """Take in a request that is not like the last; False if the fast path is not for it."""
        if len(payload) > _REMEMBERED_MAX_BYTES:
            return False
        answer = self._answers.find(payload)
        if answer is None:
            return False
        try:
            self._request = decode_request(payload)
        except ProtocolError:
            return False  # what is wrong is found again, and dealt with, the usual way
        self._before, self._behind = payload[_BEFORE], payload[_BEHIND]
        self._answer = answer
        self._message = None
        return True
