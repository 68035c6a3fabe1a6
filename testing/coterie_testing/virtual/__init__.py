"""A world of processes, a network and disks in one Python process, in virtual time.

Everything in it is decided by one seed, so whatever happens can be made to happen again.
"""

from coterie_testing.virtual.disk import Disk, DiskStore
from coterie_testing.virtual.network import Network, NetworkOptions
from coterie_testing.virtual.process import Process
from coterie_testing.virtual.world import IdleError, World

__all__ = ["Disk", "DiskStore", "IdleError", "Network", "NetworkOptions", "Process", "World"]
