"""The commands: their names, arguments and options, and what each does.

A module is imported when one of its commands is run, and all are for `coterie --help`, so what is
slow to import is imported by the functions that need it.
"""
