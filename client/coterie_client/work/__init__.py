"""Work on partitions: one supervised task for each owned partition.

- `supervisor`: starts, cancels and restarts the tasks as ownership changes and work fails.
- `policies`: what users choose to happen then, and the pauses between restarts.
- `watchdog`: notices work that makes no progress.
- `callables`: refuses work that is not async before the group is joined.
- `events`: what all of this reports.
"""

from coterie_client.errors import GroupMisuseError, WorkCancelledError, WorkStalledError
from coterie_client.work.policies import OnStall, Policy, Release, Restart, Stop
from coterie_client.work.supervisor import TaskSupervisor, Work

__all__ = [
    "GroupMisuseError",
    "OnStall",
    "Policy",
    "Release",
    "Restart",
    "Stop",
    "TaskSupervisor",
    "Work",
    "WorkCancelledError",
    "WorkStalledError",
]
