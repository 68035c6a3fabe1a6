"""Nothing in the project is tied to one machine."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

# Users' own folders. Written as a pattern, so that this file does not match itself.
LOCAL_PATH = re.compile(rb"(?<![\w.])/(?:work|root|home/[\w.-]+|Users/[\w.-]+)/")


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
