"""What a listener counts, and the reasons by which it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CloseReason", "NetStats", "RefuseReason"]


class RefuseReason(StrEnum):
    """Why a connection was not served. A limit goes by its name in `Limits`."""

    MAX_CONNECTIONS = "max_connections"
    MAX_CONNECTIONS_PER_IP = "max_connections_per_ip"
    CREATION_RATE = "max_connection_creation_rate"
    MAX_HANDSHAKES = "max_handshakes"
    HANDSHAKE = "handshake"
    MADE_ROOM = "made_room"
    STOPPING = "stopping"


class CloseReason(StrEnum):
    """Why a connection ended. A limit goes by its name in `Limits`."""

    PEER = "peer"
    MALFORMED = "malformed"
    UNSUPPORTED = "unsupported"
    HANDLER = "handler"
    BUG = "bug"
    STOPPING = "stopping"
    FRAME_SIZE = "socket_request_max_bytes"
    IDLE = "connections_max_idle_ms"
    FIRST_BYTE = "first_byte_timeout_ms"
    SLOW_FRAME = "frame_timeout_ms"
    UNFINISHED_FRAMES = "unfinished_frames_max_bytes"
    UNREAD_REPLIES = "write_buffer_max_bytes"
    SLOW_READER = "drain_timeout_ms"
    AUTHENTICATION = "authentication"
    SLOW_LOGIN = "login_timeout_ms"
    SESSION_OVER = "session_over"
    MADE_ROOM = "made_room"


@dataclass(frozen=True, slots=True)
class NetStats:
    """The counts of a listener at one moment; all but `open` and `in_flight` only grow."""

    open: int
    in_flight: int
    accepted: int
    requests: int
    bytes_in: int
    bytes_out: int
    refused: Mapping[RefuseReason, int]
    closed: Mapping[CloseReason, int]
