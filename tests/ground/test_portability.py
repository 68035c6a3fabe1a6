"""Nothing in the project is tied to one machine."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

# Users' own folders. Written as a pattern, so that this file does not match itself.
LOCAL_PATH = re.compile(rb"(?<![\w.])/(?:work|root|home/[\w.-]+|Users/[\w.-]+)/")

# `(?:ab?)*+`, `(?>ab?)`: up to Python 3.11.4 such groups miss what they should match, which some
# distributions have for years.
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>")
# Its pattern is Spark's, and Java's groups are sound.
PATTERNS_OF_JAVA = "pipeline/coterie_pipeline/steps/parsing.py"


def project_files(root: Path) -> list[Path]:
    """Return the files that are tracked or would be by the next `git add`."""
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("needs git and a checkout to tell the project's files from others")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    names = listed.stdout.split("\0")
    return [path for name in names if name and (path := root / name).is_file()]


def test_no_file_names_a_local_path(root: Path) -> None:
    files = project_files(root)
    assert root / "pyproject.toml" in files
    found = [
        f"{path.relative_to(root)}: {match.group().decode()}"
        for path in files
        for match in LOCAL_PATH.finditer(path.read_bytes())
    ]
    assert found == []


def test_no_file_is_binary(root: Path) -> None:
    binary = [path.relative_to(root) for path in project_files(root) if b"\0" in path.read_bytes()]
    assert binary == []


def test_pattern_tells_local_paths_from_others() -> None:
    home = b"/home" + b"/ann/coterie"
    assert LOCAL_PATH.search(b"see " + home)
    assert not LOCAL_PATH.search(b"docs/home/ann/notes.md and a.root/x/ and /var/lib/coterie")


def test_no_pattern_has_a_possessive_group(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in project_files(root)
        if path.suffix == ".py" and path not in (root / PATTERNS_OF_JAVA, Path(__file__))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("pattern", ["(?:ab?)*+", "(a|b)++", "(a)?+", "(a){2,3}+", "(?>ab?)"])
def test_possessive_groups_are_told_from_others(pattern: str) -> None:
    assert POSSESSIVE_GROUP.search(pattern)
    assert not POSSESSIVE_GROUP.search("(?:a++b*+[c]?+)*, f(x) + 1, (a)+")
