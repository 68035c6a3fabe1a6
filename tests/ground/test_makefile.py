"""The Makefile documents itself, and what the documents promise is there."""

import os
import re
import subprocess
import tomllib
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


def test_help_lists_every_verb_once_in_order(phony: list[str], help_lines: list[str]) -> None:
    assert [line.split()[0] for line in help_lines] == phony


def test_help_explains_every_verb(help_lines: list[str]) -> None:
    for line in help_lines:
        _, text = line.split(maxsplit=1)
        assert len(text.split()) >= 2, line


def test_every_verb_is_declared_phony(makefile: str, phony: list[str]) -> None:
    """Or it would be mistaken for a file of the same name."""
    documented = re.findall(r"^([a-z0-9-]+):.*## ", makefile, flags=re.MULTILINE)
    assert sorted(documented) == sorted(phony)


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "docs/index.md", "docs/architecture.md", ".ci/run"]
)
def test_documents_name_existing_verbs(root: Path, phony: list[str], document: str) -> None:
    text = (root / document).read_text(encoding="utf-8")
    in_code_spans = re.findall(r"`make ([a-z0-9-]+)", text)
    on_code_lines = re.findall(r"^(?:\$ )?make ([a-z0-9-]+)", text, flags=re.MULTILINE)
    assert set(in_code_spans + on_code_lines) <= set(phony)


def test_contributing_lists_every_verb_of_development(root: Path, phony: list[str]) -> None:
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `make ([a-z0-9-]+)` \|", text, flags=re.MULTILINE)
    assert sorted([*listed, "help", "run", "lock"]) == sorted(phony)


def test_every_marked_test_is_run_by_a_verb(root: Path, makefile: str) -> None:
    options = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    pytest_options = options["tool"]["pytest"]["ini_options"]
    markers = {line.partition(":")[0] for line in pytest_options["markers"]}
    quick = pytest_options["addopts"][pytest_options["addopts"].index("-m") + 1]
    assert set(quick.split(" and ")) == {f"not {marker}" for marker in markers}
    selected = {
        quoted or word for quoted, word in re.findall(r'pytest .*?-m (?:"([^"]+)"|(\w+))', makefile)
    }
    selected |= {*re.findall(r'\$\(PYTEST\) -m "([^"]+)"', makefile)}
    assert selected == {*markers, "not interop and not spark_slow and not failover"}


def test_ci_runs_test_all_with_the_long_profile(root: Path) -> None:
    script = (root / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert 'export CI="${CI:-true}"' in script
    assert [line for line in script if line.startswith("make ")] == ["make lint", "make test-all"]
    assert [line for line in script if line.startswith("  .ci/")] == [
        '  .ci/compose-test "$left_s"'
    ]


def test_arguments_and_flags_do_not_reach_inner_makes(root: Path) -> None:
    """Tests start make, too."""
    shown = subprocess.run(
        ["make", "--silent", "--keep-going", "--eval=probe: ; @env", "probe", "ARGS=-q"],
        cwd=root,
        env={**os.environ, "WORKERS": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.partition("=")[0] for line in shown.stdout.splitlines()}
    assert "PATH" in names
    assert not names & {"MAKEFLAGS", "MFLAGS", "ARGS", "WORKERS"}


@pytest.mark.parametrize(
    ("chosen", "passed"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8")]
)
def test_paths_need_not_be_ascii_in_any_locale(root: Path, chosen: str, passed: str) -> None:
    """Python reads where this folder is in the encoding of the locale."""
    shown = subprocess.run(
        ["make", "--no-print-directory", "--file", root / "Makefile", "--file", "-", "shown"],
        input='shown:\n\t@echo "$$LC_ALL"\n',
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": chosen},
    )
    assert shown.stdout == f"{passed}\n"
