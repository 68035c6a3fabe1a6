"""Bugs to plant in what the simulator leaves out, each for a test to find."""
