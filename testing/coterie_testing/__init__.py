"""Everything that runs coordinator and client in one process, under control.

- `virtual`: processes, network and disk in virtual time, decided by a seed;
- `sim`: the simulator, which checks the whole system under random faults;
- `replay`: what-if replays of a group's history, taken from its journal;
- `kit` and `plugin`: what users test their own consumers with.
"""
