"""The test kit for consumers: a coordinator in the test's own process, and faults on demand."""

from coterie_protocol.extras import needs_extra

with needs_extra("testing", "coterie_testing"):
    from coterie_testing.kit.cluster import Cluster, Program
    from coterie_testing.kit.faults import Fault, Faults
    from coterie_testing.kit.loopback import LoopbackCoordinator

__all__ = ["Cluster", "Fault", "Faults", "LoopbackCoordinator", "Program"]
