"""An HTTP answer of server-sent events, from the bytes of a connection.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from coterie_client.errors import UnexpectedAnswerError

__all__ = ["EventStream", "ServerEvent"]

#: What comes before the events: status and headers.
_HEAD_BYTES_MAX: Final = 65_536
#: An event may be a table of many thousand partitions.
_EVENT_BYTES_MAX: Final = 268_435_456
#: A refusal is a sentence.
_REFUSAL_BYTES_MAX: Final = 65_536
_CHUNK_LINE_BYTES_MAX: Final = 1024
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """A server-sent event."""

    kind: str
    #: By which a client goes on later; empty if it has none.
    id: str
    data: str


@final
class EventStream:
    """Takes the bytes of one answer; raises `UnexpectedAnswerError` for what is none."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        #: None until the head has come.
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        #: Whether the answer is whole.
        self.is_over = False
        #: What was answered in place of events.
        self.refusal = b""
        self._body = bytearray()
        self._searched = 0
        self._is_chunked = False
        #: How much of a chunk, and of the end of its line, is still to come.
        self._chunk_left = 0

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take some bytes, and return the events that they complete."""
        self._bytes += data
        if self.status is None and not self._read_head():
            return []
        self._take_body()
        if self.status != _OK:
            self.refusal = bytes(self._body[:_REFUSAL_BYTES_MAX])
            del self._body[_REFUSAL_BYTES_MAX:]
            length = self.headers.get("content-length", "")
            if length.isdecimal() and len(self._body) >= min(int(length), _REFUSAL_BYTES_MAX):
                self.is_over = True
            return []
        return list(self._events())

    # -- HTTP ----------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        head, end, rest = self._bytes.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _HEAD_BYTES_MAX or not b"HTTP/1.".startswith(head[:7]):
                raise UnexpectedAnswerError("what answers does not speak HTTP")
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise UnexpectedAnswerError("what answers does not speak HTTP")
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.status = int(status[:3])
        self._is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        kind = self.headers.get("content-type", "")
        if self.status == _OK and not kind.startswith("text/event-stream"):
            raise UnexpectedAnswerError(f"what answers sends no events, but {kind or 'nothing'}")
        self._bytes = rest
        return True

    def _take_body(self) -> None:
        if not self._is_chunked:
            self._body += self._bytes
            self._bytes.clear()
            return
        begin = 0
        while not self.is_over:
            if self._chunk_left:
                taken = self._bytes[begin : begin + self._chunk_left]
                # The last two of them end the chunk's line.
                self._body += taken[: max(self._chunk_left - 2, 0)]
                begin += len(taken)
                self._chunk_left -= len(taken)
                if self._chunk_left:
                    break
            line_end = self._bytes.find(b"\r\n", begin, begin + _CHUNK_LINE_BYTES_MAX)
            if line_end < 0:
                if len(self._bytes) - begin >= _CHUNK_LINE_BYTES_MAX:
                    raise UnexpectedAnswerError("what answers sends broken chunks")
                break
            size = _chunk_size(bytes(self._bytes[begin:line_end]))
            begin = line_end + 2
            self._chunk_left = size + 2
            self.is_over = not size
        del self._bytes[:begin]

    # -- events --------------------------------------------------------------------------------

    def _events(self) -> Iterator[ServerEvent]:
        while (end := self._body.find(b"\n\n", max(self._searched - 1, 0))) >= 0:
            text = self._body[:end].decode("utf-8", "replace")
            del self._body[: end + 2]
            self._searched = 0
            event = _event(text)
            if event is not None:
                yield event
        self._searched = len(self._body)
        if self._searched > _EVENT_BYTES_MAX:
            raise UnexpectedAnswerError("what answers sends an event that does not end")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        size = int(digits, 16)
    except ValueError:
        size = -1
    if not 0 <= size <= _EVENT_BYTES_MAX:
        raise UnexpectedAnswerError("what answers sends broken chunks")
    return size


def _event(text: str) -> ServerEvent | None:
    """An event of its lines; None for comments."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" in fields else value
    if "data" not in fields:
        return None
    return ServerEvent(fields.get("event", "message"), fields.get("id", ""), fields["data"])
