"""How a supervisor and its workers talk: lines of JSON over a pair of sockets.

The first message to a worker is its options.  When one end closes, the process there has ended.
"""

from __future__ import annotations

import json
import pickle
import signal
import struct
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import socket

    from coterie_server.config.options import ServerOptions

__all__ = [
    "HELD_BACK",
    "PING",
    "PONG",
    "RELOAD",
    "Ready",
    "encoded",
    "receive_options",
    "stop_line",
]

#: What a worker is asked again and again, and answers as long as its event loop runs.
PING: Final = b"ping\n"
PONG: Final = b"pong\n"
#: What it is told when it is to read its files again.
RELOAD: Final = b"reload\n"

#: The signals that a worker is started with held back, until it is ready to handle them.
HELD_BACK: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker says when it serves."""

    #: Where its clients are told to connect, by listener.
    advertised: dict[str, str]
    groups: int
    topics: int

    def line(self) -> bytes:
        """Write it down."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> Ready:
        """Read it."""
        found: dict[str, Any] = json.loads(line)
        return cls(**found)


def stop_line(reason: str) -> bytes:
    """What a worker is told to stop it: why, which its journal keeps."""
    return f"{reason}\n".encode()


def encoded(options: ServerOptions) -> bytes:
    """What a worker is told first."""
    data = pickle.dumps(options)
    return _LENGTH.pack(len(data)) + data


def receive_options(at: socket.socket) -> ServerOptions:
    """Hear from the supervisor; raises `EOFError` if that has ended."""
    (length,) = _LENGTH.unpack(_exactly(at, _LENGTH.size))
    options: ServerOptions = pickle.loads(_exactly(at, length))  # noqa: S301  # of our own parent
    return options


def _exactly(at: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = at.recv(size)
        if not part:
            raise EOFError("the supervisor has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
