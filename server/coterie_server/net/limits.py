"""What a connection may take: bytes, time and company."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from coterie_protocol import FRAME_SIZE_LIMIT

__all__ = ["UNLIMITED", "Limits"]

#: Kafka's way to say that connections are not counted.
UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a listener; each has the name by which log lines call it.

    What one connection can make the server hold is bounded by
    `socket_request_max_bytes` for the frame that is arriving,
    `max_requests_in_flight` requests that wait for their answer, one read of requests behind them,
    and `write_buffer_max_bytes` plus one reply that wait to be sent or to be read; and by
    some kilobytes of its last commit and last answer, if these are short.
    """

    #: The largest request, as it is announced by its first four bytes.
    socket_request_max_bytes: int = FRAME_SIZE_LIMIT
    #: Connections in all, and from one address.
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    #: For some addresses, in place of that.
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    #: New connections in a second; those beyond wait.
    max_connection_creation_rate: int = UNLIMITED
    #: Connections that are not served yet: they shake hands, or wait until they may.
    max_handshakes: int = 1_000
    #: How long a client may neither send anything nor wait for an answer. Unlike Kafka's, this
    #: clock stands still during a long rebalance: who waits in a JoinGroup is not idle.
    connections_max_idle_ms: int = 600_000
    #: How long a new client may take until its first byte.
    first_byte_timeout_ms: int = 30_000
    #: How long a client that has to log in may take for that, while nothing is done for it.
    login_timeout_ms: int = 30_000
    #: How long a frame may take from its first byte to its last.
    frame_timeout_ms: int = 60_000
    #: Requests of one connection that wait for their answers. At the limit nothing more is read.
    max_requests_in_flight: int = 100
    #: Frames that have begun to arrive, over all connections. Beyond it the largest one is cut off.
    #: There is room for one of the largest and for thousands of usual ones: several clients that
    #: send the largest at the same time are none that have groups in mind.
    unfinished_frames_max_bytes: int = 134_217_728
    #: Unsent bytes of one connection above which nothing more is read from it, or, where they wait
    #: behind a reply that is not ready, nothing more is begun for it.
    write_buffer_high_bytes: int = 65_536
    #: Unsent bytes of one connection that are too many to add another reply to. The first reply
    #: may be larger than this, unless it is made in turns: some kilobytes can ask for gigabytes.
    write_buffer_max_bytes: int = 1_048_576
    #: How long a client may stay above `write_buffer_high_bytes` without reading as much as it has
    #: to.  A byte now and then must not keep the rest for ever.
    drain_timeout_ms: int = 60_000
    drain_least_bytes: int = 1_048_576
    #: How long a connection that the server closes may take to send what it still holds.
    close_timeout_ms: int = 5_000

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # No connection at all may be allowed from addresses that are not named.
            least = 0 if each.name == "max_connections_per_ip" else 1
            if isinstance(value, int) and value < least:
                raise ValueError(f"{each.name} is {value}; it must be at least {least}")
        if self.write_buffer_max_bytes < self.write_buffer_high_bytes:
            raise ValueError(
                f"write_buffer_max_bytes is {self.write_buffer_max_bytes}; it must be at least"
                f" write_buffer_high_bytes, which is {self.write_buffer_high_bytes}"
            )
