"""Work on partitions: one task for each that is owned, watched, restarted and ended in order."""

from coterie_client.work.crew import Crew, Work
from coterie_client.work.errors import GroupMisuseError, WorkCancelledError, WorkStalledError
from coterie_client.work.policies import OnStall, Policy, Release, Restart, Stop

__all__ = [
    "Crew",
    "GroupMisuseError",
    "OnStall",
    "Policy",
    "Release",
    "Restart",
    "Stop",
    "Work",
    "WorkCancelledError",
    "WorkStalledError",
]
