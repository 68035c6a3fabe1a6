"""The coordinator: decides who owns which partition in a group of workers."""
