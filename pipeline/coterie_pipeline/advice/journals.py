"""Rules about the journals themselves, which say how far to trust the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from coterie_pipeline.advice.sentences import Row, Times, advise, count_of, seconds

__all__ = ["Unread", "about_nodes", "about_unread"]

#: Clocks that are kept by NTP agree better than this.
_OFF_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Unread:
    """Lines that can't be read, for one reason."""

    why: str
    lines: int
    files: int
    first_file: str


def about_nodes(nodes: Iterable[Row]) -> Iterator[Row]:
    """Lines that are missing, numbers that two lines have, and clocks that are off."""
    for node in nodes:
        times = Times()
        times.note(node["first_ms"], node["last_ms"])
        yield from _gap(node, times)
        yield from _clock(node, times)


def _gap(node: Row, times: Times) -> Iterator[Row]:
    missing, gaps, conflicts = node["missing"], node["gaps"], node["conflicts"]
    what = []
    if missing > 0:
        places = count_of(gaps, "place", "places")
        what.append(f" lacks {count_of(missing, 'line', 'lines')} in {places}")
    if conflicts > 0:
        what.append(f" has {count_of(conflicts, 'number', 'numbers')} twice")
    if what:
        yield _of_node(
            node,
            "journal_gap",
            "wrong",
            f"The journal of node {node['node']}{' and'.join(what)}: figures for that time may be "
            "wrong.",
            ("missing", "gaps", "conflicts"),
            times,
        )


def _clock(node: Row, times: Times) -> Iterator[Row]:
    back_ms, behind_ms = node["clock_back_ms"], node["clock_behind_ms"]
    what = []
    if back_ms > _OFF_MS:
        what.append(f" was set back by up to {seconds(back_ms)}")
    if behind_ms > _OFF_MS:
        what.append(f" is at least {seconds(behind_ms)} behind another node's")
    if what:
        yield _of_node(
            node,
            "clock",
            "note",
            f"The clock of node {node['node']}{' and'.join(what)}: times that span that are off by "
            "as much.",
            ("clock_back_ms", "clock_behind_ms"),
            times,
        )


def _of_node(
    node: Row, rule: str, severity: str, sentence: str, names: Sequence[str], times: Times
) -> Row:
    evidence = {name: node[name] for name in names}
    return advise("", rule, severity, sentence, evidence, times, about=node["node"])


def about_unread(unread: Iterable[Unread]) -> Iterator[Row]:
    """Lines that could not be taken into account; the torn line of a crash is no fault."""
    for each in unread:
        if each.why != "torn":
            yield advise(
                "",
                "unread_lines",
                "note",
                f"{count_of(each.lines, 'line', 'lines')} in "
                f"{count_of(each.files, 'file', 'files')} could not be taken into account "
                f"({each.why.replace('_', ' ')}), the first of them in {each.first_file}.",
                {"why": each.why, "lines": each.lines, "files": each.files},
                about=each.first_file,
            )
