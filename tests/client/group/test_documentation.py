"""What the documentation shows works."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import coterie_client
from coterie_client import events
from coterie_client.group import Group

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split("\n")[0] for block in BLOCKS])
def test_code_on_the_page_is_python(block: str) -> None:
    tree = ast.parse(block)
    compile(tree, "client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "coterie_client":
            assert {name.name for name in node.names} <= set(coterie_client.__all__)


def test_page_lists_all_options() -> None:
    section = PAGE.split("\n## Options\n")[1].split("\n### ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|\s*([^|]*?)\s*\|", section, re.MULTILINE))
    defaults = Group.__init__.__kwdefaults__
    assert defaults is not None
    assert rows.keys() == defaults.keys() | {"topics"}
    for name, default in defaults.items():
        if isinstance(default, bool):
            assert rows[name] == str(default)
        elif isinstance(default, float):
            assert rows[name] == f"{default:g}"


def test_page_says_what_each_option_must_be() -> None:
    section = PAGE.split("\n### What options must be\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    defaults = Group.__init__.__kwdefaults__
    assert defaults is not None
    assert named >= defaults.keys() | {"group", "topics"}


def test_events_on_the_page_exist() -> None:
    named = re.findall(r"`((?:Work|Revocation|Partitions)[A-Z]\w+)`", PAGE)
    assert len(named) > 5
    assert set(named) <= {*events.__all__, *coterie_client.__all__}
