"""How stories of a few lines become one journal.

Each story is about a group of its own, on nodes of its own, so that all of them make one journal
that Spark has to read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.scribe import Scribe

__all__ = ["Chapter", "write_stories"]

_Story = Callable[[], Scribe]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The stories of a module; as a decorator, it takes one in."""

    stories: list[_Story] = field(default_factory=list)

    def __call__(self, tell: _Story) -> _Story:
        """Have a story told."""
        self.stories.append(tell)
        return tell


def write_stories(chapters: Iterable[Chapter], folder: Path) -> list[Path]:
    """Write the journal of all stories."""
    scribes = [tell() for chapter in chapters for tell in chapter.stories]
    _check_apart(scribes)
    return [path for scribe in scribes for path in scribe.write(folder)]


def _check_apart(scribes: Iterable[Scribe]) -> None:
    # Two stories of one name would be one story, and two of one file would lose one.
    seen: set[str] = set()
    for scribe in scribes:
        names = {scribe.group, *scribe.files}
        assert not names & seen, f"another story is called so: {sorted(names & seen)}"
        seen |= names
