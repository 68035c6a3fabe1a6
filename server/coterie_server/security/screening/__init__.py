"""What of a request its client may ask, by Kafka's rules: before any other part sees the request.

`screen` looks at a request and at who sent it.  It finds that the request may pass as it is, that
it is refused, with the answer that says so, or that a part of it is: then there is a narrower
request, and a function that puts what was refused into the answer.  So the parts of the node that
serve requests know nothing of rights.

`asking` is who asks.  `groups`, `offsets`, `topics`, `topic_changes` and `cluster` have the rules,
one function for each request.  Rules about many names, and long answers, are made in pieces
(`turns`).
"""

from coterie_server.security.screening.asking import (
    LOOK_AGAIN,
    PASS,
    Asking,
    Narrowed,
    Refusal,
    Refused,
    TopicFacts,
    Verdict,
)
from coterie_server.security.screening.rules import FREE, screen

__all__ = [
    "FREE",
    "LOOK_AGAIN",
    "PASS",
    "Asking",
    "Narrowed",
    "Refusal",
    "Refused",
    "TopicFacts",
    "Verdict",
    "screen",
]
