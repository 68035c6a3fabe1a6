"""The simulator: coordinators and workers in a virtual world, faults, and what must hold."""
