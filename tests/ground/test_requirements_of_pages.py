"""What README and quick start use is there when they use it, also on a machine that had nothing."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ground.documented import ROOT, Block, blocks_of, commands_of
from tests.ground.test_layout import PARTS

PAGES = [ROOT / "README.md", ROOT / "docs" / "quick-start.md"]
#: The packages of what is imported or called under another name.
PACKAGES = {"kafka": "kafka-python"}
#: What a system and a virtual environment have.
PRESENT = {".", "coterie", "make", "python"}


def locked(name: str) -> set[str]:
    """The packages of a lock."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9._-]+)==", text, re.MULTILINE))


def installed_by(command: str) -> set[str]:
    """What a command adds to the environment."""
    words = shlex.split(command)
    if words[:2] == ["make", "run"]:
        return locked("run.txt") | {f"coterie_{part}" for part in PARTS}
    if words[:4] == ["python", "-m", "pip", "install"]:
        return {word for word in words[4:] if not word.startswith("-")}
    return set()


def needed_by(block: Block) -> Iterator[str]:
    """The packages that a program imports."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_installs_what_it_uses_before_it_does(page: Path) -> None:
    installed, written = set[str](), set[str]()
    for block in blocks_of(page):
        if block.language == "python":
            written.add(Path(block.title).stem)
            wanted = set(needed_by(block)) - sys.stdlib_module_names - written
            assert {PACKAGES.get(name, name) for name in wanted} <= installed, block.title
        elif block.language == "console":
            for command in block.commands:
                typed = command.typed
                assert typed == "^C" or typed.split()[0] in PRESENT | installed, typed
                installed |= installed_by(typed)


def test_first_command_of_the_readme_starts_the_daemon() -> None:
    first = next(block for block in blocks_of(ROOT / "README.md") if block.language == "console")
    assert first.commands[0].typed.startswith("make run")


def test_first_success_is_within_two_screens() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before = text[: text.index("received an assignment")]
    assert before.count("\n") < 80


@pytest.mark.parametrize("verb", ["make run", "make test"])
def test_readme_has_both_verbs(verb: str) -> None:
    assert any(typed.startswith(verb) for typed in commands_of(ROOT / "README.md"))
