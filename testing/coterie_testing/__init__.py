"""Tools for testing consumer code: simulator, virtual clock and network, pytest plugin."""
