"""The Makefile documents itself, and what the documents promise is there."""

import re
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def makefile(root: Path) -> str:
    """Return the Makefile's text."""
    return (root / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def phony(makefile: str) -> list[str]:
    """Return the targets that are verbs, not files."""
    (listed,) = re.findall(r"^\.PHONY:(.*)$", makefile, flags=re.MULTILINE)
    return str(listed).split()


@pytest.fixture(scope="module")
def help_lines(root: Path) -> list[str]:
    """Return what `make` without a target prints."""
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=root, capture_output=True, text=True, check=True
    )
    return shown.stdout.splitlines()


def test_help_lists_every_verb_once(phony: list[str], help_lines: list[str]) -> None:
    """`make` prints one line per verb, in the order in which they are declared."""
    assert [line.split()[0] for line in help_lines] == phony


def test_help_explains_every_verb(help_lines: list[str]) -> None:
    """Each line says in a few words what the verb does."""
    for line in help_lines:
        _, text = line.split(maxsplit=1)
        assert len(text.split()) >= 2, line


def test_every_verb_is_declared_phony(makefile: str, phony: list[str]) -> None:
    """A documented target is never mistaken for a file of the same name."""
    documented = re.findall(r"^([a-z0-9-]+):.*## ", makefile, flags=re.MULTILINE)
    assert sorted(documented) == sorted(phony)


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "docs/index.md", "docs/architecture.md", ".ci/run"]
)
def test_documents_name_existing_verbs(root: Path, phony: list[str], document: str) -> None:
    """Every `make <verb>` in a document is a target."""
    text = (root / document).read_text(encoding="utf-8")
    in_code_spans = re.findall(r"`make ([a-z0-9-]+)", text)
    on_code_lines = re.findall(r"^(?:\$ )?make ([a-z0-9-]+)", text, flags=re.MULTILINE)
    assert set(in_code_spans + on_code_lines) <= set(phony)
