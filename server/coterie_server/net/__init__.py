"""TCP: one connection's bytes to requests, and answers to bytes, in order and within limits.

`Listener` accepts connections and hands each request to a `Handler` as an `Exchange`. Nothing
here knows what a group is, and the handler knows nothing of sockets.
"""

from coterie_server.net.connection import Connection
from coterie_server.net.endpoint import Endpoint, Terms, UnknownSubjectError
from coterie_server.net.exchange import Exchange, Handler
from coterie_server.net.limits import UNLIMITED, Limits
from coterie_server.net.listener import Listener
from coterie_server.net.registry import Registry
from coterie_server.net.stats import CloseReason, NetStats, RefuseReason

__all__ = [
    "UNLIMITED",
    "CloseReason",
    "Connection",
    "Endpoint",
    "Exchange",
    "Handler",
    "Limits",
    "Listener",
    "NetStats",
    "RefuseReason",
    "Registry",
    "Terms",
    "UnknownSubjectError",
]
