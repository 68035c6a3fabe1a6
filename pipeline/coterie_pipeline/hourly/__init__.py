"""What is summed up by hour, in plain Python: a group's commits, and its health."""
