"""Reading journal files in plain Python."""

from __future__ import annotations

import gzip
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from coterie_protocol.journal import KINDS, SCHEMA_VERSION

__all__ = ["Raw", "former_lives", "is_void", "raw_lines", "read_once"]


@dataclass(frozen=True, slots=True)
class Raw:
    """One line as it was found."""

    segment: str
    text: str
    #: What is wrong with it, if anything is.
    why: str | None
    values: Mapping[str, Any]

    @property
    def number(self) -> tuple[str, int] | None:
        """Whose line it is and which, if that can be read."""
        node, seq = self.values.get("node"), self.values.get("seq")
        return (node, seq) if isinstance(node, str) and isinstance(seq, int) else None


def raw_lines(folder: Path) -> list[Raw]:
    """All lines of all files, whatever they are worth."""
    return [
        _raw(f"file:{path.absolute()}", text, ends=ends)
        for path in sorted(folder.rglob("journal-*"))
        for text, ends in _lines(path)
    ]


def _lines(path: Path) -> list[tuple[str, bool]]:
    """The lines, and whether each one ends."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
    *lines, rest = text.split("\n")
    return [(line, True) for line in lines] + ([(rest, False)] if rest else [])


def _raw(segment: str, text: str, *, ends: bool) -> Raw:
    if not ends:
        return Raw(segment, text, "torn", {})
    try:
        values = json.loads(text)
    except ValueError:
        return Raw(segment, text, "torn" if text.startswith('{"v":') else "foreign", {})
    if not isinstance(values, dict) or not _fit(values, v=int, ts=int, node=str, seq=int):
        return Raw(segment, text, "foreign", {})
    return Raw(segment, text, _why(values), values)


def _why(values: Mapping[str, Any]) -> str | None:
    if values["v"] > SCHEMA_VERSION:
        return "newer"
    event = KINDS.get(values.get("kind", ""))
    if event is None:
        return "unknown_kind"
    if values["v"] < SCHEMA_VERSION:
        return "misfit"
    hints = typing.get_type_hints(event)
    for each in fields(event):
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        if each.name in values:
            if not _is(values[each.name], hints[each.name]):
                return "misfit"
        elif not has_default and type(None) not in typing.get_args(hints[each.name]):
            return "misfit"
    return None


def _fit(values: Mapping[str, Any], **types_: type) -> bool:
    return all(_is(values.get(name), type_) for name, type_ in types_.items())


def _is(value: Any, hint: Any) -> bool:
    """Whether a value of JSON's is what an annotation says."""
    if hint is Any:
        return True
    if hint in (str, int, bool):
        return type(value) is hint
    if is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return isinstance(value, dict) and all(
            _is(value[name], type_) for name, type_ in hints.items() if name in value
        )
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(value is None if each is type(None) else _is(value, each) for each in arguments)
    if origin is tuple:
        return isinstance(value, list) and all(_is(each, arguments[0]) for each in value)
    return isinstance(value, dict) and all(_is(each, arguments[1]) for each in value.values())


# -- order ----------------------------------------------------------------------------------------


def read_once(raws: list[Raw]) -> list[Mapping[str, Any]]:
    """The lines that count: one of each number, by node and number."""
    chosen: dict[tuple[str, int], Raw] = {}
    void = former_lives(raws)
    for raw in sorted(raws, key=lambda each: (Path(each.segment).name, each.segment)):
        if raw.why is None and raw.number is not None and not is_void(raw, void):
            chosen[raw.number] = raw
    return [raw.values for _, raw in sorted(chosen.items())]


def former_lives(raws: list[Raw]) -> dict[tuple[str, str], int]:
    """By node and file, from which number on lines are of a former life of their node."""
    files: dict[tuple[str, str], dict[int, Raw]] = {}
    for raw in raws:
        if raw.why is None and raw.number is not None:
            node, seq = raw.number
            files.setdefault((node, raw.segment), {})[seq] = raw
    begun = {file: min(raw.values["ts"] for raw in lines.values()) for file, lines in files.items()}
    renewals = {
        later
        for former, later in permutations(files, 2)
        if former[0] == later[0] and begun[former] < begun[later]
        if _differ(files[former], files[later])
    }
    void: dict[tuple[str, str], int] = {}
    for later in renewals:
        for file, lines in files.items():
            low = min(files[later])
            if file[0] == later[0] and begun[file] < begun[later] and max(lines) >= low:
                void[file] = min(void.get(file, low), low)
    return void


def _differ(lines: dict[int, Raw], others: dict[int, Raw]) -> bool:
    """Whether the first number that may be in both files has other texts."""
    seq = max(min(lines), min(others))
    return seq in lines and seq in others and lines[seq].text != others[seq].text


def is_void(raw: Raw, void: Mapping[tuple[str, str], int]) -> bool:
    """Whether a line is of a former life of its node."""
    if raw.number is None:
        return False
    node, seq = raw.number
    return (node, raw.segment) in void and seq >= void[node, raw.segment]
