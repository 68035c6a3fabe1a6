"""A journal that grows: nodes that begin new files, die within a line, and come late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal import Line, write_line
from coterie_protocol.journal_text import segment_name
from tests.support.journals import handed_over, simulated

__all__ = ["Write", "growth", "lines_of_nodes", "rows_of"]

#: What a crash leaves of a line.
_TORN = 20


@dataclass(frozen=True, slots=True)
class Write:
    """A few bytes at the end of a file."""

    path: Path
    text: bytes

    def happen(self) -> None:
        """Write them; the file is begun if it is not there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(self.text)


def lines_of_nodes() -> list[Line]:
    """A group that goes over to a node whose clock is behind, and one whose assignor is broken."""
    moving = handed_over(simulated(2, "hostile"), ("a", "b"), {"b": 1_500})
    return [*moving, *simulated(3)]


def growth(
    lines: Iterable[Line], folder: Path, *, segment_lines: int = 40, write_lines: int = 20
) -> list[Write]:
    """What writes lines in about the order of their times, each node's into a folder of its own.

    Every other file ends within a line, which comes whole in the next one.
    """
    by_node: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.seq):
        by_node.setdefault(line.node, []).append(line)
    steps = []
    for node, own in by_node.items():
        at_ms = 0
        for begin in range(0, len(own), write_lines):
            some = own[begin : begin + write_lines]
            at_ms = max(at_ms, some[-1].ts)  # a node's writes keep their order, whatever its clock
            path = folder / node / segment_name(node, own[begin - begin % segment_lines].seq)
            text = "".join(f"{write_line(line)}\n" for line in some).encode()
            end = begin + write_lines
            if end % (2 * segment_lines) == 0 and end < len(own):
                text += write_line(own[end]).encode()[:_TORN]
            steps.append((at_ms, Write(path, text)))
    return [write for _, write in sorted(steps, key=lambda step: step[0])]


def rows_of(warehouse: Warehouse) -> dict[str, list[str]]:
    """All tables, as texts that can be compared."""
    return {
        name: sorted(str(row) for row in table.collect())
        for name, table in warehouse.tables().items()
    }
