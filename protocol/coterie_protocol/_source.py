"""Writing Python source a line at a time, for the two emitters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Mark", "Source"]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a line of a generated parser is about, should it raise.

    `path` has the loops' index variables in braces.  `base` is the local variable that holds the
    offset of the field once `back` is taken off.  A line that reads several fields at once lists
    all of them, in order, as `(path, size)` in `reads`.
    """

    path: str
    base: str = "pos"
    back: int = 0
    reads: tuple[tuple[str, int], ...] = ()


class Source:
    """Lines of one generated function, the objects they refer to, and what each is about."""

    def __init__(self, signature: str, suffix: str) -> None:
        """Start a function; `suffix` keeps its names apart from those of others in its module."""
        self.lines = [signature]
        self._suffix = suffix
        self.linked: dict[str, Any] = {}
        self.marks: dict[int, Mark] = {}
        self._depth = 1
        self._names = 0

    def line(self, text: str, mark: Mark | None = None) -> None:
        """Add a line at the present depth."""
        if mark is not None:
            self.marks[len(self.lines)] = mark
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str, mark: Mark | None = None) -> Iterator[None]:
        """Add the opening line of a block; what is added inside `with` is its body."""
        self.line(opening, mark)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A name that nothing else here has."""
        self._names += 1
        return f"{prefix}{self._names}{self._suffix}"

    def link(self, thing: Any, prefix: str) -> str:
        """A name by which the generated code can refer to `thing`."""
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
        """The whole function."""
        return "\n".join(self.lines)
