"""What a journal tells, played again: by the same members, perhaps with other settings."""

from coterie_testing.replay.changes import Changes
from coterie_testing.replay.outcome import Outcome, outcome_of
from coterie_testing.replay.play import Life, Play, Silence, Stall, Subscription
from coterie_testing.replay.reading import play_of
from coterie_testing.replay.stage import STEPS_MAX, TooLongError, replay

__all__ = [
    "STEPS_MAX",
    "Changes",
    "Life",
    "Outcome",
    "Play",
    "Silence",
    "Stall",
    "Subscription",
    "TooLongError",
    "outcome_of",
    "play_of",
    "replay",
]
