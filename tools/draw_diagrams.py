"""Write the diagrams in the documentation anew from the code and from the golden traces.

A page says by a comment what a diagram is drawn from, and the diagram follows it:

    <!-- drawn from the table of states -->
    <!-- drawn from the table of phases -->
    <!-- drawn from traces/hand-over.txt -->

A test compares; `python -m tools.draw_diagrams` writes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from coterie_client.membership import phases
from coterie_server.group.states import TRANSITIONS
from tools.diagrams.told import sequence, states

__all__ = ["DOCS", "main", "phases_drawn", "redrawn"]

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_DRAWN: Final = re.compile(
    r"(?P<comment><!-- drawn from (?P<source>[^>]+) -->)\n+```mermaid\n.*?^```$",
    re.MULTILINE | re.DOTALL,
)


def redrawn(page: str) -> str:
    """A page with all its diagrams as they should be."""
    return _DRAWN.sub(
        lambda found: f"{found['comment']}\n\n```mermaid\n{_drawn(found['source'])}\n```", page
    )


def phases_drawn() -> dict[phases.Phase, dict[phases.Phase, str]]:
    """A member's phases; what leads out of nearly all of them is drawn from the last one only."""
    shared = (phases.LOST_ITS_PLACE, phases.ENDS)
    return {
        phase: {
            after: why
            for after, why in ways.items()
            if why not in shared or phase is phases.Phase.STABLE
        }
        for phase, ways in phases.TRANSITIONS.items()
    }


def _drawn(source: str) -> str:
    if source == "the table of states":
        return states(TRANSITIONS)
    if source == "the table of phases":
        return states(phases_drawn())
    return sequence((DOCS / source).read_text(encoding="utf-8").splitlines())


def main() -> int:
    """Write the pages, and name those that have changed."""
    for path in sorted(DOCS.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        after = redrawn(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(DOCS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
