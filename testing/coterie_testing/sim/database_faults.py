"""What befalls the database that several coordinators share."""

from __future__ import annotations

from typing import Final

from coterie_testing.sim.faults import Fault
from coterie_testing.sim.system import System
from coterie_testing.virtual import Database

__all__ = ["DatabaseFaults"]

#: How long a lease lasts by default: its clock has to be set forward by more to end all of them.
_LEASE_S: Final = 3.0


class DatabaseFaults:
    """Injects faults into the database; there is a method for each kind."""

    def __init__(self, system: System) -> None:
        self._system = system

    def inject(self, fault: Fault) -> str | None:
        """Inject a fault and say what was done; None if there is no database."""
        database = self._system.disk
        if not isinstance(database, Database):
            return None
        done: str | None = getattr(self, f"_{fault.kind}")(database, fault)
        return done

    def _stop_database(self, database: Database, fault: Fault) -> str:
        database.stop()
        self._system.heal_after(fault.seconds, database.start)
        return f"for {fault.seconds:g} s"

    def _promote_replica(self, database: Database, fault: Fault) -> str | None:
        """Have a replica take over that has all that was acknowledged."""
        if database.is_down:
            return None
        database.stop()
        database.promote()
        self._system.heal_after(fault.seconds, database.start)
        return f"after {fault.seconds:g} s"

    def _database_clock_jump(self, database: Database, fault: Fault) -> str:
        """Set its clock forward, so that leases expire at once, mostly all of them."""
        by_s = _LEASE_S * (fault.amount - 1) + fault.seconds
        database.ahead_ms += round(by_s * 1000)
        return f"by {by_s:g} s"
