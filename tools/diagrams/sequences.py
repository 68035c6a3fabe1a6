"""Draws sequences of messages: a column for each participant, time downwards."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from tools.diagrams.mermaid import Message, Note, Sequence
from tools.diagrams.svg import LINE, arrow_path, box, drawing, text, width_of, wrapped

__all__ = ["draw_sequence"]

_HEAD: Final = 28.0
_GAP: Final = 14.0
_MARGIN: Final = 16.0
_COLUMN_MIN: Final = 88.0
_MESSAGE_CHARS: Final = 28
_NOTE_CHARS: Final = 28


def draw_sequence(sequence: Sequence) -> str:
    """Return the drawing as SVG."""
    columns = _columns(sequence)
    pieces: list[str] = []
    edges = [*columns.values()]
    y = 0.0
    for step in sequence.steps:
        lines = _lines(step)
        if isinstance(step, Message):
            start, end = columns[step.sender], columns[step.receiver]
            height = len(lines) * LINE + 8
            pieces.append(text((start + end) / 2, y + _GAP + height / 2 - 6, lines))
            line_y = y + _GAP + height
            points = [(start, line_y), (end, line_y)]
            pieces.append(arrow_path(points, dashed=step.is_answer))
        else:
            at, height, width = columns[step.over], len(lines) * LINE + 10, width_of(lines) + 16
            pieces.append(box(at, y + _GAP + height / 2, width, height, dashed=True))
            pieces.append(text(at, y + _GAP + height / 2, lines))
            edges += [at - width / 2, at + width / 2]
        y += _GAP + height
    bottom = y + _GAP
    lives = [arrow_path([(x, 0), (x, bottom)], head=False) for x in columns.values()]
    heads = _heads(sequence, columns)
    half = _COLUMN_MIN / 2
    label = "Sequence of messages between " + ", ".join(sequence.participants.values())
    all_pieces = [*(_faint(life) for life in lives), *pieces, *heads]
    return drawing(all_pieces, min(edges) - half, -_HEAD, max(edges) + half, bottom, label)


def _faint(piece: str) -> str:
    return f'<g opacity="0.35">{piece}</g>'


def _lines(step: Message | Note) -> list[str]:
    if isinstance(step, Message):
        return wrapped(step.text, _MESSAGE_CHARS)
    return [line for part in step.lines for line in wrapped(part, _NOTE_CHARS)]


def _heads(sequence: Sequence, columns: dict[str, float]) -> list[str]:
    pieces = []
    for name, x in columns.items():
        lines = [sequence.participants[name]]
        pieces += [box(x, -_HEAD / 2, width_of(lines) + 24, _HEAD), text(x, -_HEAD / 2, lines)]
    return pieces


def _columns(sequence: Sequence) -> dict[str, float]:
    """The position of each column, with room for the messages between neighbours."""
    names = list(sequence.participants)
    gaps = dict.fromkeys(pairwise(names), _COLUMN_MIN)
    for step in sequence.steps:
        if isinstance(step, Message):
            first, last = sorted((names.index(step.sender), names.index(step.receiver)))
            between = list(pairwise(names[first : last + 1]))
            if len(between) == 1:
                needed = width_of(_lines(step)) + 2 * _MARGIN
                gaps[between[0]] = max(gaps[between[0]], needed)
    at, columns = 0.0, {names[0]: 0.0}
    for pair in pairwise(names):
        at += gaps[pair]
        columns[pair[1]] = at
    return columns
