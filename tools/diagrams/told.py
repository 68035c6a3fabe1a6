"""Diagrams of what is in the code and in the golden traces, as Mermaid's text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar

__all__ = ["sequence", "states"]

#: A pause as long as this is told.
_LATER_S: Final = 1.0
_LINE: Final = re.compile(r"^\s*(?P<at>\d+\.\d+)\s+(?P<who>\S+)\s+(?P<what>.+)$")
_WORKER: Final = re.compile(r"\bw\d+")
_JOINS: Final = re.compile(r"joins, keeping (\d+): (.+)")
_PHASE: Final = re.compile(r"(generation \d+) by (\S+): ([^;]+)(?:; (.+))?")
_SHARED: Final = re.compile(r"generation \d+ is shared out: (.+)")
_OWNS: Final = re.compile(r"owns \d+(?:, (.+))?")
_COORDINATOR: Final = "coordinator"

State = TypeVar("State", bound=Enum)


def states(transitions: Mapping[State, Mapping[State, str]]) -> str:
    """The states of a table, and the ways between them."""
    first = next(iter(transitions))
    lines = [f"[*] --> {first.value}"]
    for state, ways in transitions.items():
        lines += [f"{state.value} --> {after.value}: {why}" for after, why in ways.items()]
    return _diagram("stateDiagram-v2", lines)


def sequence(trace: Iterable[str]) -> str:
    """Who said what to whom in a trace."""
    telling = _Telling()
    for line in trace:
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"not a line of a trace: {line!r}")
        telling.tell(float(found["at"]), found["who"], found["what"])
    return _diagram("sequenceDiagram", telling.finish())


def _diagram(kind: str, lines: Iterable[str]) -> str:
    return "\n".join([kind, *(f"    {line}" for line in lines)])


class _Telling:
    """Turns the lines of a trace into messages and notes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._workers: set[str] = set()
        self._shares: dict[str, str] = {}
        self._noted: tuple[str, list[str]] | None = None
        self._at_s: float | None = None

    def tell(self, at_s: float, who: str, what: str) -> None:
        """Add what one line says."""
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
        """All of it, with those who take part at its top."""
        self._end_note()
        taking_part = [_COORDINATOR, *sorted(self._workers)]
        return [*(f"participant {name}" for name in taking_part), *self._lines]


def _plain(member: str) -> str:
    """A worker's name, whichever of its member ids it is, and whether it leads or not."""
    return member.rstrip("*'")


def _safe(text: str) -> str:
    """A semicolon would end the line."""
    return text.replace(";", ",")
