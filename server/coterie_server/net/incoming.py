"""The bytes that come in on one connection, cut into requests and decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from coterie_protocol import ApiKey, FrameReader, ProtocolError, Request, decode_request
from coterie_protocol.committed import CommitDecoder
from coterie_server.frames_of_errors import without_frames
from coterie_server.net.faults import answer_to_unsupported
from coterie_server.net.limits import Limits
from coterie_server.net.time_limits import TimeLimits

__all__ = ["Incoming"]

_SIZE_BYTES: Final = 4
#: Where a request has its API, and that of commits.
_API: Final = slice(0, 2)
_COMMIT: Final = int(ApiKey.OFFSET_COMMIT).to_bytes(2)


@final
class Incoming:
    """Cuts bytes into requests, and keeps account of the frame that is not whole yet."""

    __slots__ = (
        "_charge",
        "_commits",
        "_frames",
        "_is_open",
        "_limits",
        "_times",
        "fault",
        "unfinished_bytes",
    )

    def __init__(self, limits: Limits, times: TimeLimits, charge: Callable[[int], None]) -> None:
        self._limits = limits
        self._times = times
        self._charge = charge
        self._frames = FrameReader(limits.socket_request_max_bytes)
        self._is_open = True
        #: None until the client commits for the first time.
        self._commits: CommitDecoder | None = None
        #: What is wrong with the bytes behind the requests that were cut.
        self.fault: ProtocolError | None = None
        #: How much has arrived of a frame that is not whole yet.
        self.unfinished_bytes = 0

    def cut(self, data: bytes, now: float) -> list[bytes]:
        """The requests that these bytes complete; none if what they begin costs the connection."""
        payloads: list[bytes] = []
        try:
            payloads = self._frames.feed(data)
            if (
                len(payloads) == 1
                and len(payloads[0]) + _SIZE_BYTES == len(data)
                and self._times.frame_since is None
            ):
                return payloads  # one whole request in one piece, as nearly always
            if payloads:
                # A bad size behind good frames shows in the next call only, and nothing more
                # may ever come.
                self._frames.feed(b"")
        except ProtocolError as error:
            self.fault = without_frames(error)  # whose frames hold all that came
        self._note_unfinished(now, is_new=bool(payloads))
        return payloads if self._is_open else []  # whose guard, if it had one, is gone

    def decode(self, payload: bytes) -> Request | bytes | None:
        """The request that was cut, or the answer to one that can't be read; None at a `fault`."""
        try:
            if payload[_API] != _COMMIT:
                return decode_request(payload)
            if self._commits is None:
                self._commits = CommitDecoder()
            return self._commits.decode(payload)
        except ProtocolError as error:
            answer = answer_to_unsupported(error)
            if answer is None:
                self.fault = error
            return answer

    def _note_unfinished(self, now: float, *, is_new: bool) -> None:
        """Keep the time and the account of the frame that is not whole yet."""
        unfinished_bytes = self._frames.buffered
        if not unfinished_bytes:
            self._times.frame_since = None
        elif is_new or self._times.frame_since is None:
            self._times.frame_since = now
            self._times.watch(now, self._limits.frame_timeout_ms)
        change_bytes = unfinished_bytes - self.unfinished_bytes
        self.unfinished_bytes = unfinished_bytes
        if change_bytes:
            self._charge(change_bytes)

    def limit_frames(self, max_bytes: int) -> None:
        """Take frames of so many bytes at most from now on."""
        self._frames.limit = max_bytes

    def let_go(self) -> None:
        """Free what the client made us hold."""
        self._is_open = False
        self._frames = FrameReader()
        self._commits = None
        self.fault = None  # its traceback leads back here
        self._charge(-self.unfinished_bytes)
        self.unfinished_bytes = 0
