"""Generate the diagrams of the documentation from the code and from the golden traces.

In a page, the comment before a diagram names its source:

    <!-- drawn from the table of states -->
    <!-- drawn from the table of phases -->
    <!-- drawn from traces/hand-over.txt -->

`python -m tools.draw_diagrams` writes the diagrams, and a test checks that they are up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from coterie_client.membership import phases
from coterie_server.group.states import TRANSITIONS

__all__ = ["DOCS", "main", "phases_drawn", "redrawn", "sequence", "states"]

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_DRAWN: Final = re.compile(
    r"(?P<comment><!-- drawn from (?P<source>[^>]+) -->)\n+```mermaid\n.*?^```$",
    re.MULTILINE | re.DOTALL,
)

#: Pauses from this length on are shown.
_LATER_S: Final = 1.0
_LINE: Final = re.compile(r"^\s*(?P<at>\d+\.\d+)\s+(?P<who>\S+)\s+(?P<what>.+)$")
_WORKER: Final = re.compile(r"\bw\d+")
_JOINS: Final = re.compile(r"joins, keeping (\d+): (.+)")
_PHASE: Final = re.compile(r"(generation \d+) by (\S+): ([^;]+)(?:; (.+))?")
_SHARED: Final = re.compile(r"generation \d+ is assigned: (.+)")
_OWNS: Final = re.compile(r"owns \d+(?:, (.+))?")
_COORDINATOR: Final = "coordinator"

State = TypeVar("State", bound=Enum)


def redrawn(page: str) -> str:
    """Return a page with all its diagrams up to date."""
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
    """Write all pages, and print the names of those that changed."""
    for path in sorted(DOCS.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        after = redrawn(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(DOCS))
    return 0


def states(transitions: Mapping[State, Mapping[State, str]]) -> str:
    """Draw a table of transitions as a state diagram."""
    first = next(iter(transitions))
    lines = [f"[*] --> {first.value}"]
    for state, ways in transitions.items():
        lines += [f"{state.value} --> {after.value}: {why}" for after, why in ways.items()]
    return _diagram("stateDiagram-v2", lines)


def sequence(trace: Iterable[str]) -> str:
    """Draw a trace as a sequence diagram."""
    diagram = _SequenceDiagram()
    for line in trace:
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"not a line of a trace: {line!r}")
        diagram.add(float(found["at"]), found["who"], found["what"])
    return _diagram("sequenceDiagram", diagram.finish())


def _diagram(kind: str, lines: Iterable[str]) -> str:
    return "\n".join([kind, *(f"    {line}" for line in lines)])


class _SequenceDiagram:
    """Turns the lines of a trace into messages and notes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._workers: set[str] = set()
        self._shares: dict[str, str] = {}
        self._noted: tuple[str, list[str]] | None = None
        self._at_s: float | None = None

    def add(self, at_s: float, who: str, what: str) -> None:
        if self._at_s is not None and at_s - self._at_s >= _LATER_S:
            self._note(_COORDINATOR, f"{at_s - self._at_s:.1f} s later")
        self._at_s = at_s
        if who == _COORDINATOR:
            self._coordinator(what)
        elif who == "injector":
            named = _WORKER.search(what)
            self._note(named[0] if named else _COORDINATOR, what)
        else:
            self._worker(_plain(who), what)

    def _coordinator(self, what: str) -> None:
        if phase := _PHASE.fullmatch(what):
            generation, _, members, more = phase.groups()
            if more:
                self._note(_COORDINATOR, more)
            for member in members.split():
                leads = ", you lead" if member.endswith("*") else ""
                self._message(_COORDINATOR, member, f"{generation}{leads}")
        elif shared := _SHARED.fullmatch(what):
            for share in shared[1].split("; "):
                member, partitions = share.split(": ", maxsplit=1)
                self._shares[_plain(member)] = partitions
        else:
            self._note(_COORDINATOR, what)

    def _worker(self, who: str, what: str) -> None:
        if joins := _JOINS.fullmatch(what):
            kept, reason = joins.groups()
            keeping = f", keeping {kept}" if kept != "0" else ""
            self._message(who, _COORDINATOR, f"JoinGroup{keeping}: {reason}")
        elif what.startswith("leads: "):
            self._message(who, _COORDINATOR, "SyncGroup: " + what.removeprefix("leads: "))
        elif owns := _OWNS.fullmatch(what):
            share = self._shares.pop(who, owns[1] or "as before")
            asked = ", NEEDS_REJOIN" if "NEEDS_REJOIN" in what else ""
            self._message(_COORDINATOR, who, share + asked)
        else:
            self._note(who, what)

    def _message(self, sender: str, receiver: str, text: str) -> None:
        self._end_note()
        arrow = "-->>" if sender == _COORDINATOR else "->>"
        self._lines.append(f"{self._name(sender)}{arrow}{self._name(receiver)}: {_safe(text)}")

    def _note(self, who: str, text: str) -> None:
        if self._noted is None or self._noted[0] != who:
            self._end_note()
            self._noted = (who, [])
        self._noted[1].append(_safe(text))

    def _end_note(self) -> None:
        if self._noted is not None:
            who, texts = self._noted
            self._noted = None
            self._lines.append(f"Note over {self._name(who)}: {'<br>'.join(texts)}")

    def _name(self, who: str) -> str:
        name = _plain(who)
        if name != _COORDINATOR:
            self._workers.add(name)
        return name

    def finish(self) -> list[str]:
        self._end_note()
        participants = [_COORDINATOR, *sorted(self._workers)]
        return [*(f"participant {name}" for name in participants), *self._lines]


def _plain(member: str) -> str:
    """The worker's name without the marks of a leader and of a new member id."""
    return member.rstrip("*'")


def _safe(text: str) -> str:
    """Replace semicolons, which would end the line."""
    return text.replace(";", ",")


if __name__ == "__main__":
    sys.exit(main())
