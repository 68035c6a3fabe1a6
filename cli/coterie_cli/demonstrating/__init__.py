"""What `coterie demo` does: a stage with two groups, a script, and who shows it."""
