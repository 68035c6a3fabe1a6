"""Writes Python source line by line, for the two emitters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Mark", "Source"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Which field a line of a generated parser reads, for the error if that line raises.

    `path` has the loops' index variables in braces.  The field's offset is the local variable
    `base` minus `back`.  A line that reads several fields at once lists all of them in order, as
    `(path, size)`, in `reads`.
    """

    path: str
    base: str = "pos"
    back: int = 0
    reads: tuple[tuple[str, int], ...] = ()


class Source:
    """The lines of one generated function, the objects they refer to, and their marks."""

    def __init__(self, signature: str, suffix: str) -> None:
        """Start a function; `suffix` keeps its names apart from those of the module's others."""
        self.lines = [signature]
        self._suffix = suffix
        self.linked: dict[str, Any] = {}
        self.marks: dict[int, Mark] = {}
        self._depth = 1
        self._names = 0

    def line(self, text: str, mark: Mark | None = None) -> None:
        """Add a line at the current depth."""
        if mark is not None:
            self.marks[len(self.lines)] = mark
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str, mark: Mark | None = None) -> Iterator[None]:
        """Open a block; lines added inside the `with` statement are its body."""
        self.line(opening, mark)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A name that is not in use yet."""
        self._names += 1
        return f"{prefix}{self._names}{self._suffix}"

    def link(self, thing: Any, prefix: str) -> str:
        """The name by which the generated code refers to `thing`."""
        for name, known in self.linked.items():
            if known is thing:
                return name
        name = self.fresh(prefix)
        self.linked[name] = thing
        return name

    def constant(self, value: Any) -> str:
        """An expression for a default value."""
        if value is None or isinstance(value, bool | int | str | bytes) or value == ():
            return repr(value)
        return self.link(value, "default")

    def text(self) -> str:
        return "\n".join(self.lines)
