"""The locks pin everything with hashes, agree with each other and name no place."""

import re
import tomllib
from pathlib import Path

import pytest

LOCKS = ("tools.txt", "run.txt", "dev.txt", "fuzz.txt", "object-store.txt")

# A scheme, a pip option, or a direct reference ("name @ ..."): each would tie users to a place.
PLACE = re.compile(r"://|^\s*-[-if]|\s@\s|\bfile:", re.MULTILINE)


def read_lock(root: Path, name: str) -> str:
    """Return a lock's text."""
    return (root / "requirements" / name).read_text(encoding="utf-8")


def without_comments_and_hashes(lock: str) -> str:
    """Return a lock's requirements alone, without continuation marks."""
    lines = (re.sub(r"#.*|\\$", "", line) for line in lock.splitlines())
    return "\n".join(line for line in lines if not line.strip().startswith("--hash="))


def requirements(lock: str) -> list[str]:
    """Return each requirement of a lock as one logical line, hashes included."""
    uncommented = re.sub(r"^\s*#.*$", "", lock, flags=re.MULTILINE)
    joined = uncommented.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip()]


def pins(lock: str) -> set[tuple[str, str]]:
    """Return the names and versions that a lock pins."""
    return set(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock, flags=re.MULTILINE))


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_host(root: Path, name: str) -> None:
    lock = read_lock(root, name)
    assert "://" not in lock
    assert not PLACE.search(without_comments_and_hashes(lock))


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_with_hashes(root: Path, name: str) -> None:
    found = requirements(read_lock(root, name))
    assert found
    for requirement in found:
        assert re.match(
            r"[a-z0-9-]+==[^\s;]+( ;[^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+$", requirement
        ), requirement


def test_run_lock_is_part_of_the_dev_lock(root: Path) -> None:
    assert pins(read_lock(root, "run.txt")) <= pins(read_lock(root, "dev.txt"))


def test_run_lock_can_install_the_tree_without_a_network(root: Path) -> None:
    """So the build backend is locked too, as the tree is installed without build isolation."""
    names = {name for name, _ in pins(read_lock(root, "run.txt"))}
    assert {"hatchling", "editables"} <= names


def test_dev_lock_has_every_declared_dependency(root: Path) -> None:
    document = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    project, groups = document["project"], document["dependency-groups"]
    asked = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
        *(each for each in groups["dev"] if isinstance(each, str)),
    ]
    locked = {name for name, _ in pins(read_lock(root, "dev.txt"))}
    missing = {re.split(r"[^A-Za-z0-9-]", each)[0] for each in asked} - locked - {"coterie"}
    assert missing == set()


def test_oldest_pandas_that_is_asked_for_knows_numpy_2(root: Path) -> None:
    """Arrow ends the import with an older NumPy, though none of the packages says so."""
    document = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    asked = document["project"]["optional-dependencies"]["pipeline"]
    (oldest,) = (each[1] for each in map(re.compile(r"pandas>=([\d.]+)").match, asked) if each)
    assert tuple(map(int, oldest.split("."))) >= (2, 2, 2)
