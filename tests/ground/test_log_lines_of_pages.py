"""What pages tell an operator to look for in the log is what a node says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.ground.documented import ROOT

#: The heads of the tables whose rows begin with what the log says.
HEADS: Final = ("| In the log |", "| It says |")
PAGES: Final = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if any(head in page.read_text(encoding="utf-8") for head in HEADS)
)
#: What differs from case to case: names with numbers, and what is left out.
_DIFFERS: Final = re.compile(r"\.\.\.|\(\.\.\.\)|\S*\d\S*")


def sentences_of(page: Path) -> Iterator[str]:
    """What the first column of a page's tables quotes, and what the second has one look for."""
    rows = iter(page.read_text(encoding="utf-8").splitlines())
    for row in rows:
        if row.startswith(HEADS):
            for line in iter(lambda: next(rows, ""), ""):
                said, _, advice = line.partition(" | ")
                yield from re.findall(r"`([^`]+)`", said)
                yield from re.findall(r"[Ll]ook for `([^`]+)`", advice)


@cache
def said_by_nodes() -> str:
    """All texts in the code of nodes, each on a line of its own."""
    return "\n".join(
        node.value
        for path in sorted((ROOT / "server").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_several_pages_have_such_tables() -> None:
    assert {"high-availability.md", "postgresql.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_that_a_page_quotes_are_in_the_log(page: Path) -> None:
    unknown = [
        sentence
        for sentence in sentences_of(page)
        for part in _DIFFERS.split(sentence)
        if part.strip(" ,:") not in said_by_nodes()
    ]
    assert unknown == []
