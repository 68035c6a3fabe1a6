"""SASL: the conversations by which clients prove who they are.

A conversation takes the client's messages and answers each with a `Challenge`, with `Accepted`, or
with a `Check` that some thread has to run; or it raises `LoginRefusedError`.
"""

from coterie_server.security.sasl.node import (
    NODE_MECHANISM,
    NodeNotProvenError,
    NodeProof,
    certificate_binding,
    node_conversation,
)
from coterie_server.security.sasl.oauthbearer import (
    OAuthBearerConversation,
    ShownToken,
    TokenRefusedError,
    VerifyToken,
)
from coterie_server.security.sasl.plain import PlainConversation, RightPasswords
from coterie_server.security.sasl.scram import ScramConversation
from coterie_server.security.sasl.steps import (
    Accepted,
    Challenge,
    Check,
    Conversation,
    LoginRefusedError,
    Step,
)
from coterie_server.security.sasl.users import (
    SALT_BYTES,
    Credentials,
    Decoys,
    Found,
    KnownUsers,
    Users,
    made_of_password,
)

__all__ = [
    "NODE_MECHANISM",
    "SALT_BYTES",
    "Accepted",
    "Challenge",
    "Check",
    "Conversation",
    "Credentials",
    "Decoys",
    "Found",
    "KnownUsers",
    "LoginRefusedError",
    "NodeNotProvenError",
    "NodeProof",
    "OAuthBearerConversation",
    "PlainConversation",
    "RightPasswords",
    "ScramConversation",
    "ShownToken",
    "Step",
    "TokenRefusedError",
    "Users",
    "VerifyToken",
    "certificate_binding",
    "made_of_password",
    "node_conversation",
]
