"""Run the benchmarks: `python bench/run.py [suite ...]`.

A suite is a module in this folder.  The first line of its docstring says what it measures, and its
`run(effort)` returns a `Report`.  To add a suite, add a module.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console

FOLDER: Final = Path(__file__).resolve().parent
if not __package__:
    # Run as a script: Python puts this folder on the path, where the suites would shadow other
    # modules of the same name; `bench` itself is found from the folder above.
    sys.path[0] = str(FOLDER.parent)

from bench.support.measure import FULL, QUICK, Effort  # noqa: E402  # needs the path set above
from bench.support.report import Report, as_json, as_markdown, show  # noqa: E402  # likewise

__all__ = ["FOLDER", "main", "run_suite", "suites"]

#: Tables need room, and output that is not a terminal has no known width.
WIDTH_MIN: Final = 116

_LIBRARIES: Final = ("construct", "kafka-python", "aiokafka")


def suites() -> dict[str, str]:
    """The suites by name, each with the first line of its docstring."""
    return {
        path.stem: _first_line(path)
        for path in sorted(FOLDER.glob("*.py"))
        if path.name != Path(__file__).name
    }


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def run_suite(name: str, effort: Effort) -> Report:
    """Run the suite of that name."""
    report = importlib.import_module(f"bench.{name}").run(effort)
    assert isinstance(report, Report)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that the command line names; return the exit status."""
    known = suites()
    options = _options(known, arguments)
    if options.list:
        for name, purpose in known.items():
            print(f"{name:<14}{purpose}")
        return 0
    effort = QUICK if options.quick else FULL
    if options.quick:
        print("A quick try, run once and cold: the figures below mean nothing.\n")
    results = {}
    for name in options.suites or known:
        report = run_suite(name, effort)
        results[name] = as_json(report)
        _print(report, markdown=options.markdown)
    if options.json:
        document = {"machine": _machine(), "quick": options.quick, "suites": results}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


def _machine() -> dict[str, str | int]:
    """What the figures depend on besides the code, without the machine's name."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        **{name: version(name) for name in _LIBRARIES},
    }


def _print(report: Report, *, markdown: bool) -> None:
    if markdown:
        print(as_markdown(report))
        return
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_MIN)
    show(report, console)


def _options(known: dict[str, str], arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description="Run the benchmarks.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="all of them by default")
    parser.add_argument("--list", action="store_true", help="list the suites")
    parser.add_argument("--quick", action="store_true", help="only try that everything runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    options = parser.parse_args(arguments)
    for name in options.suites:
        if name not in known:
            parser.error(f"no suite {name!r}; there are: {', '.join(known)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
