"""What all parts of a membership stand on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from coterie_client.membership.backoff import Backoff
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.post import Post
from coterie_client.membership.standing import Identity, Standing

__all__ = ["Fail", "Ground", "Judge"]

#: Draws the consequences of an error code that came for an identity, at a time.
Judge: TypeAlias = Callable[[int, Identity, int], None]

#: Ends the membership for a reason that no retry will mend.
Fail: TypeAlias = Callable[[Exception], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """The configuration, what goes out, where the member stands, and who decides what follows."""

    config: MembershipConfig
    sources: Sources
    judge: Judge
    fail: Fail
    post: Post = field(default_factory=Post)
    standing: Standing = field(default_factory=Standing)

    def backoff(self) -> Backoff:
        """Delays for one kind of thing to try again."""
        config = self.config
        return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.sources.random)
