"""One folder per part, each holding one typed import package."""

import tomllib
from pathlib import Path

import grimp
import pytest

#: The parts' folders, and the import package that each of them holds.
PARTS = {
    "public": "coterie",
    "protocol": "coterie_protocol",
    "assignors": "coterie_assignors",
    "server": "coterie_server",
    "client": "coterie_client",
    "testing": "coterie_testing",
    "pipeline": "coterie_pipeline",
    "cli": "coterie_cli",
}


@pytest.mark.parametrize("part", PARTS)
def test_top_folder_is_not_a_package(root: Path, part: str) -> None:
    """With an `__init__.py` it would be a package under a wrong name."""
    assert (root / part).is_dir()
    assert not (root / part / "__init__.py").exists()


@pytest.mark.parametrize("part", PARTS)
def test_part_holds_one_import_package(root: Path, part: str) -> None:
    packages = [path.parent.name for path in (root / part).glob("*/__init__.py")]
    assert packages == [PARTS[part]]


@pytest.mark.parametrize("part", PARTS)
def test_package_is_typed(root: Path, part: str) -> None:
    assert (root / part / PARTS[part] / "py.typed").is_file()


def test_readme_counts_all_parts(root: Path) -> None:
    layout = (root / "README.md").read_text(encoding="utf-8").split("\n## Layout\n")[1]
    words = {8: "eight", 9: "nine"}
    assert f"all {words[len(PARTS)]} are one distribution" in layout
    assert all(f"| `{folder}/{package}` |" in layout for folder, package in PARTS.items())


def test_packaging_types_lint_and_layers_know_all_parts(root: Path) -> None:
    tool = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    build = tool["hatch"]["build"]
    assert build["dev-mode-dirs"] == list(PARTS)
    assert build["targets"]["wheel"]["packages"] == [
        f"{part}/{package}" for part, package in PARTS.items()
    ]
    assert tool["mypy"]["mypy_path"] == [*PARTS, "."]
    assert tool["ruff"]["src"] == [*PARTS, "."]
    packages = list(PARTS.values())
    assert tool["importlinter"]["root_packages"] == packages
    (circles,) = (c for c in tool["importlinter"]["contracts"] if c["id"] == "no-circles")
    assert circles["ancestors"] == packages


def test_no_package_is_in_a_circle_with_its_own_modules() -> None:
    """The lint contract compares siblings only."""
    graph = grimp.build_graph(*PARTS.values(), cache_dir=None)
    circles = [
        (module, package)
        for package in graph.modules
        for module in graph.find_descendants(package)
        if graph.direct_import_exists(importer=module, imported=package)
        and graph.find_shortest_chain(importer=package, imported=module)
    ]
    assert circles == []
