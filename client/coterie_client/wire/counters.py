"""What a network counts, and where its limits are."""

from __future__ import annotations

from dataclasses import dataclass, fields

from coterie_client import checks
from coterie_protocol import FRAME_SIZE_LIMIT

__all__ = ["ConnectionLimits", "Counters"]


@dataclass(slots=True)
class Counters:
    """How much has gone over the wire, and how well; everything only grows."""

    #: Requests that were sent.
    requests: int = 0
    #: Answers that came, whatever they say.
    answers: int = 0
    #: Requests whose answer did not come, because of the time or the connection.
    errors: int = 0
    #: Requests among them whose time ran out.
    timeouts: int = 0
    #: Connections that became ready for use.
    connections_opened: int = 0
    #: Attempts that came to nothing.
    connections_failed: int = 0
    #: Connections that ended otherwise than by our own `close`.
    connections_lost: int = 0
    #: Attempts to reach a node again that was reached before.
    reconnects: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a connection may take."""

    #: From the first packet until requests can be sent, TLS and SASL included. Kafka's clients
    #: give the packets alone as much (`socket.connection.setup.timeout.ms`).
    connect_timeout_ms: int = 10_000
    #: How long `close` waits for the last bytes to leave before it drops them.
    close_timeout_ms: int = 1_000
    #: The largest answer that is taken in.
    frame_max_bytes: int = FRAME_SIZE_LIMIT
    #: With more than this unsent, requests wait until the server has read some of it.
    write_buffer_high_bytes: int = 262_144

    def __post_init__(self) -> None:
        for each in fields(self):
            checks.whole(each.name, getattr(self, each.name))
