"""What the pure cores say of the limits on what a node remembers for its clients."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LimitHit"]


@dataclass(frozen=True, slots=True)
class LimitHit:
    """That a client did not get something, because the node holds as much as it may."""

    #: The setting that is the limit.
    setting: str
    limit: int
    #: What was not to be had.
    wanted: str
