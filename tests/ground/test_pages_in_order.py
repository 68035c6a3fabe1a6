"""Pages that are followed one after the other, in one folder, do not get in each other's way."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.ground.documented import ROOT, blocks_of, commands_of

#: Those whose reader starts a coordinator here and saves programs beside it.
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "docs" / "quick-start.md",
    *(ROOT / "docs" / "how-to" / f"{name}.md" for name in ("stateful-workers", "find-owners")),
]


def data_of(page: Path) -> Iterator[str]:
    """Where the coordinators of a page keep their data."""
    for typed in commands_of(page):
        words = shlex.split(typed.replace("ARGS=", "").replace('"', ""))
        if words[:2] in (["make", "run"], ["coterie", "serve"]):
            given = words[words.index("--data-dir") + 1] if "--data-dir" in words else None
            yield given or "coterie-data"


def test_each_page_has_programs_of_its_own() -> None:
    titles = Counter(b.title for page in PAGES for b in blocks_of(page) if b.language == "python")
    assert len(titles) > len(PAGES)
    assert [title for title, count in titles.items() if count > 1] == []


def test_each_page_has_data_of_its_own_which_git_ignores() -> None:
    folders = [set(data_of(page)) for page in PAGES]
    assert [len(each) for each in folders] == [1] * len(PAGES)
    assert len(set.union(*folders)) == len(PAGES)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {f"/{folder}/" for folder in set.union(*folders)} <= set(ignored)


def test_pages_that_start_a_coordinator_say_to_stop_another_one() -> None:
    for page in PAGES[1:]:
        before = page.read_text(encoding="utf-8").split('title="Terminal 1"')[0]
        assert "stop one that runs already" in before or "stop it with Ctrl-C" in before, page
