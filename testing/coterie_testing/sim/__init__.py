"""The simulator: coordinators and workers in a virtual scheduler, faults, and what must hold."""
