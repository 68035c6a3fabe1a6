"""What-if replays: a group's history, taken from its journal and run again with other settings.

A journal tells what the coordinator saw. `read_recording` takes out of it what came from outside:
when each member's process began and ended, when it was silent or too busy to join, which topics it
wanted, when topics changed, and when the coordinator was down. What the journal does not tell is
assumed and listed (`assumptions`). Whatever the coordinator and the members decided is left out:
generations, assignments and expiries come about anew.

`replay` runs a recording in virtual time with the simulator's coordinator and workers. Each
recorded member becomes a worker that starts, stops, falls silent and is busy at the recorded times,
set up as it was or with the `Changes` to be tried: timeouts, assignor, static membership, settings
of the coordinator. Quiet times are cut short, since nothing happens in them.

The result is a `Cost`: rebalances by cause, partitions that moved, the time in which they were not
worked on. `cost_of` takes the same from a journal alone, so that a replay without changes can be
held against what really happened. What a replay can't know is listed in `docs/what-if.md`.
"""

from coterie_testing.replay.changes import Changes
from coterie_testing.replay.cost import Cost, cost_of
from coterie_testing.replay.journal_reader import read_recording
from coterie_testing.replay.recording import (
    RecordedMember,
    Recording,
    Silence,
    Stall,
    SubscriptionChange,
)
from coterie_testing.replay.runner import STEPS_MAX, TooLongError, replay

__all__ = [
    "STEPS_MAX",
    "Changes",
    "Cost",
    "RecordedMember",
    "Recording",
    "Silence",
    "Stall",
    "SubscriptionChange",
    "TooLongError",
    "cost_of",
    "read_recording",
    "replay",
]
