"""What a release has to agree on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.ground.documented import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_changelog_has_a_section_for_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", headings[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_show_the_version_that_there_is(page: Path) -> None:
    shown = re.findall(r"^coterie (\d+\.\d+\.\d+)", page.read_text("utf-8"), re.MULTILINE)
    assert set(shown) <= {VERSION}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CHANGELOG.md"])
def test_links_of_the_front_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_performance_begins_with_a_table_for_users() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    table = text.split("\n## ")[0]
    for wanted in ("workers", "commits a second", "rebalance", "restart", "memory", "two cores"):
        assert wanted in table.lower()
