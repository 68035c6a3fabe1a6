"""Check the size limits of functions and files.

A function should fit on a screen, and a module should be readable in one sitting.  Docstrings do
not count towards a function's length, so they need not be cut short.
"""

import ast
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Function", "complaints", "functions_in", "main", "percentile"]

PRODUCT_FOLDERS = (
    "public",
    "protocol",
    "assignors",
    "server",
    "client",
    "testing",
    "pipeline",
    "cli",
)
OTHER_FOLDERS = ("tests", "bench", "tools", "examples")

FUNCTION_LINES_MAX = 60
FUNCTION_LINES_P90_MAX = 25  # product code only
FILE_LINES_MAX = 400  # product code only


@dataclass(frozen=True, slots=True)
class Function:
    """A function's place, and its length without the docstring."""

    name: str
    line: int
    length_lines: int


def functions_in(source: str) -> list[Function]:
    """Return all functions of a module, including nested ones and methods."""
    return [
        Function(node.name, node.lineno, _length_lines(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def _length_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    length = _span(node)
    if ast.get_docstring(node, clean=False) is not None:
        length -= _span(node.body[0])
    return length


def _span(node: ast.stmt) -> int:
    # Nodes from ast.parse know their last line; the stubs allow None for nodes made by hand.
    last_line = node.end_lineno
    assert last_line is not None
    return last_line - node.lineno + 1


def complaints(root: Path) -> Iterator[str]:
    """Yield a line for each file or function under the root that exceeds a limit."""
    product_lengths_lines: list[int] = []
    for folder in (*PRODUCT_FOLDERS, *OTHER_FOLDERS):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root)
            source = path.read_text(encoding="utf-8")
            functions = functions_in(source)
            yield from _long_functions(name, functions)
            if folder in PRODUCT_FOLDERS:
                product_lengths_lines += [function.length_lines for function in functions]
                yield from _long_file(name, source)
    p90 = percentile(product_lengths_lines, 0.9)
    if p90 > FUNCTION_LINES_P90_MAX:
        yield f"one function in ten has {p90} lines or more; the limit is {FUNCTION_LINES_P90_MAX}"


def _long_functions(name: Path, functions: list[Function]) -> Iterator[str]:
    for function in functions:
        if function.length_lines > FUNCTION_LINES_MAX:
            yield (
                f"{name}:{function.line}: {function.name} has {function.length_lines} lines; "
                f"the limit is {FUNCTION_LINES_MAX}"
            )


def _long_file(name: Path, source: str) -> Iterator[str]:
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{name}: the file has {lines} lines; the limit is {FILE_LINES_MAX}"


def percentile(values: list[int], share: float) -> int:
    """Return the smallest value that the given share of the values does not exceed."""
    if not values:
        return 0
    return sorted(values)[math.ceil(share * len(values)) - 1]


def main() -> int:
    """Print what is too long; return the exit status."""
    found = list(complaints(Path(__file__).resolve().parent.parent))
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
