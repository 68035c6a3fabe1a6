"""The client's connections: requests in, answers out.  Nothing here knows what a group is.

`Network` sends a request to a node; `Connection` is one connection to one node.
"""

from coterie_client.backoff import Backoff, RetryOptions
from coterie_client.wire.addresses import ANY, Anybody, Lane, NodeAddress
from coterie_client.wire.bootstrap import Bootstrap, parse_bootstrap
from coterie_client.wire.connection import Connection
from coterie_client.wire.counters import ConnectionLimits, Counters
from coterie_client.wire.dialling import Dial, default_dial, dial_tcp
from coterie_client.wire.network import RECONNECT, Network
from coterie_client.wire.security import PLAINTEXT, Sasl, SaslMechanism, Security, Tls
from coterie_client.wire.versions import ByVersion, Versions

__all__ = [
    "ANY",
    "PLAINTEXT",
    "RECONNECT",
    "Anybody",
    "Backoff",
    "Bootstrap",
    "ByVersion",
    "Connection",
    "ConnectionLimits",
    "Counters",
    "Dial",
    "Lane",
    "Network",
    "NodeAddress",
    "RetryOptions",
    "Sasl",
    "SaslMechanism",
    "Security",
    "Tls",
    "Versions",
    "default_dial",
    "dial_tcp",
    "parse_bootstrap",
]
