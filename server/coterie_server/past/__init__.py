"""A group's past: its rebalances, and who owned what at any moment, read from journals.

`collecting` takes a group's lines as far back as they matter, `marks` and `ownership` say what they
tell, by the same replay that makes the pipeline's tables, and `answer` makes JSON of it.  `reading`
does that for a node's own journal, in a thread.
"""

from coterie_server.past.answer import LIMITS, Asked, PastLimit, Present, past_json
from coterie_server.past.breathing import Breath, StoppedError
from coterie_server.past.collecting import KINDS, Collected, collect
from coterie_server.past.ranges import in_ranges

__all__ = [
    "KINDS",
    "LIMITS",
    "Asked",
    "Breath",
    "Collected",
    "PastLimit",
    "Present",
    "StoppedError",
    "collect",
    "in_ranges",
    "past_json",
]
