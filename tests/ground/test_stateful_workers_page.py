"""The how-to about state works as it says."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import coterie_client
from coterie_assignors import WarmSettings
from coterie_client import GroupCounters, events
from tests.ground.documented import ROOT, Reader, blocks_of

PAGE = ROOT / "docs" / "how-to" / "stateful-workers.md"


@pytest.mark.slow
def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    Reader(tmp_path).read(PAGE)


def test_code_on_the_page_uses_what_there_is() -> None:
    for block in blocks_of(PAGE):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and node.module == "coterie_client":
                assert {name.name for name in node.names} <= set(coterie_client.__all__)


def _one(name: str, value: int) -> Any:
    return {name: value}


def test_settings_on_the_page_are_all_there_are() -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n## Settings\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|", section, re.MULTILINE)
    settings = WarmSettings()
    names = {each for each in WarmSettings.__slots__ if each != "allow_short_probing"}
    assert {name for name, _, _ in rows} == names
    for name, default, least in rows:
        assert getattr(settings, name) == int(default.replace(",", ""))
        lowest = int(least.replace(",", ""))
        replace(settings, **_one(name, lowest))
        with pytest.raises(ValueError, match=name):
            replace(settings, **_one(name, lowest - 1))


def test_events_and_counters_on_the_page_exist() -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n## Watching\n")[1]
    words = set(re.findall(r"`(\w+)`", section)) - {"role"}
    named = {word for word in words if word[0].isupper()}
    assert named <= set(events.__all__)
    assert words - named <= set(GroupCounters.__slots__)
