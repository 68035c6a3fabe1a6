"""What a journal tells, played again: by the same members, perhaps with other settings."""

from coterie_testing.replay.changes import Changes
from coterie_testing.replay.outcome import Outcome, outcome_of
from coterie_testing.replay.play import Life, Play, Silence, play_of
from coterie_testing.replay.stage import replay

__all__ = [
    "Changes",
    "Life",
    "Outcome",
    "Play",
    "Silence",
    "outcome_of",
    "play_of",
    "replay",
]
