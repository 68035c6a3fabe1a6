"""Who a client is, and what it may do.

The room is pure: principals, credentials, the conversations by which clients prove who they are,
and the rules by which they are let.  Connections, the catalogue and the node call it.
"""

from coterie_server.security.credentials import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)
from coterie_server.security.principal import ANONYMOUS, Principal
from coterie_server.security.protocol import SecurityProtocol

__all__ = [
    "ANONYMOUS",
    "ITERATIONS_DEFAULT",
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "Principal",
    "ScramCredential",
    "ScramMechanism",
    "SecurityProtocol",
]
