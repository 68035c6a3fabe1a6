"""The commands: their names, arguments and options, and what each does.

All of them are imported whenever `coterie` starts, so what is slow to import is imported by the
functions that need it.
"""
