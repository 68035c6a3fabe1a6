"""What the pure cores report when a limit on what a node keeps for its clients is reached."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LimitHit"]


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A client was refused something, because the node holds as much as it may."""

    #: The setting that limits it.
    setting: str
    limit: int
    #: What the client asked for.
    wanted: str
