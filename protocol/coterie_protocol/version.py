"""The version of Coterie.

It is written down here once more, as asking what is installed takes a process that only wants to
say who it is longer than saying it.  A test compares it with pyproject.toml.
"""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
