"""Processes, a network and disks in one Python process, in virtual time.

One seed decides everything that is random, so a run can be repeated exactly.

- `Scheduler` has the time, the seed's random numbers, and the queue of everything that is due.
- `Process` is an asyncio event loop that takes its turns from the scheduler. It can be paused, as
  a virtual machine is, and killed, as by `kill -9`.
- `Network` connects processes by transports whose bytes arrive in order, late, or never.
- `Disk` outlives processes; `DiskStore` is the coordinator's store on it.
- `Database` is on a machine of its own; with `DatabaseStore` several coordinators share it.
"""

from coterie_testing.virtual.conditions import NetworkOptions
from coterie_testing.virtual.database import Database, DatabaseStore
from coterie_testing.virtual.disk import Disk, DiskOptions, DiskStore
from coterie_testing.virtual.network import Network
from coterie_testing.virtual.process import Process
from coterie_testing.virtual.scheduler import IdleError, Scheduler

__all__ = [
    "Database",
    "DatabaseStore",
    "Disk",
    "DiskOptions",
    "DiskStore",
    "IdleError",
    "Network",
    "NetworkOptions",
    "Process",
    "Scheduler",
]
