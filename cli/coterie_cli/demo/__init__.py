"""What `coterie demo` does: a scenario, played with real workers on two groups side by side."""
