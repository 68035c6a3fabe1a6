"""The client's connections to servers: requests out, answers in.  It knows nothing of groups.

From the top down:

- `network`: `Network`, all connections of one client.  Sends a request to a node (or to any node)
  over a lane, connects when needed, waits out back-offs, and learns the cluster's nodes.
- `connection`: `Connection`, one connection to one node, ready for requests: dialled, API versions
  known, authenticated.
- `channel`: `Channel`, one stream of bytes as an asyncio protocol.  Matches answers with requests
  by their order, enforces timeouts and back-pressure; knows nothing of what is said.

These use

- `addresses`: nodes, lanes, and bootstrap addresses as people write them;
- `security`: settings for TLS (`tls`) and SASL (`credentials`, and `tokens` for OAUTHBEARER), also
  from Kafka's `client.properties` (`client_properties`, `properties`);
- `sasl`: the authentication itself: PLAIN, SCRAM and OAUTHBEARER;
- `versions`: which version of each API to use with a server;
- `dialling`: how a TCP or TLS transport is made, once `lookups` has found a host's addresses; tests
  and simulators replace it;
- `threads`: calls that may hang, in threads that nothing waits for;
- `deadlines`: timeouts that a suspended process does not mistake for a silent server.
"""

from coterie_client.backoff import Backoff, RetryOptions
from coterie_client.wire.addresses import (
    ANY,
    AnyNode,
    Bootstrap,
    Lane,
    NodeAddress,
    parse_bootstrap,
)
from coterie_client.wire.channel import ConnectionLimits, Counters
from coterie_client.wire.connection import Connection
from coterie_client.wire.dialling import Dial, default_dial, dial_tcp
from coterie_client.wire.network import RECONNECT, Network
from coterie_client.wire.security import PLAINTEXT, Sasl, SaslMechanism, Security, Tls
from coterie_client.wire.versions import ByVersion, Versions

__all__ = [
    "ANY",
    "PLAINTEXT",
    "RECONNECT",
    "AnyNode",
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
