"""Build the wheel and check that it contains what it should, and nothing else.

Users install the wheel, not the tree, so a missing `py.typed`, a stray test folder or a wrong entry
point would otherwise show up only after a release.
"""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheel"
PACKAGES = {
    "coterie": "public",
    "coterie_protocol": "protocol",
    "coterie_assignors": "assignors",
    "coterie_server": "server",
    "coterie_client": "client",
    "coterie_testing": "testing",
    "coterie_pipeline": "pipeline",
    "coterie_cli": "cli",
}
SHIPPED_SUFFIXES = {".css", ".html", ".js", ".properties", ".py", ".svg", ".typed"}


def main() -> int:
    """Build the wheel and print what is wrong with it; return the exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(_build()) as wheel:
        found = [*_content_faults(wheel, project), *_metadata_faults(wheel, project)]
    for fault in found:
        print(f"wheel: {fault}")
    return 1 if found else 0


def _build() -> Path:
    shutil.rmtree(OUT, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(OUT)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        sys.exit(f"wheel: the build failed\n{built.stdout}{built.stderr}")
    (wheel,) = OUT.glob("*.whl")
    return wheel


def _content_faults(wheel: zipfile.ZipFile, project: dict[str, Any]) -> Iterator[str]:
    dist_info = f"{project['name']}-{project['version']}.dist-info"
    expected = {
        f"{dist_info}/METADATA",
        f"{dist_info}/WHEEL",
        f"{dist_info}/RECORD",
        f"{dist_info}/entry_points.txt",
        f"{dist_info}/licenses/LICENSE",
        *(name for package in PACKAGES for name in _files_of(package)),
    }
    actual = set(wheel.namelist())
    yield from (f"lacks {name}" for name in sorted(expected - actual))
    yield from (f"should not contain {name}" for name in sorted(actual - expected))


def _files_of(package: str) -> Iterator[str]:
    folder = ROOT / PACKAGES[package]
    # Required even if they are missing in the tree as well.
    yield f"{package}/__init__.py"
    yield f"{package}/py.typed"
    for path in (folder / package).rglob("*"):
        if path.suffix in SHIPPED_SUFFIXES:
            yield path.relative_to(folder).as_posix()


def _metadata_faults(wheel: zipfile.ZipFile, project: dict[str, Any]) -> Iterator[str]:
    dist_info = f"{project['name']}-{project['version']}.dist-info"
    metadata = BytesParser().parsebytes(wheel.read(f"{dist_info}/METADATA"))
    expected = {
        "Name": project["name"],
        "Version": project["version"],
        "Requires-Python": project["requires-python"],
        "License-Expression": project["license"],
        "License-File": "LICENSE",
    }
    for key, value in expected.items():
        if metadata[key] != value:
            yield f"METADATA says {key}: {metadata[key]}, expected {value}"
    yield from _extras_faults(metadata, project)
    yield from _readme_faults(metadata)
    entry_points = wheel.read(f"{dist_info}/entry_points.txt").decode()
    for command, target in project["scripts"].items():
        if f"{command} = {target}" not in entry_points:
            yield f"entry_points.txt lacks {command} = {target}"


def _extras_faults(metadata: Message, project: dict[str, Any]) -> Iterator[str]:
    extras = set(metadata.get_all("Provides-Extra", []))
    if extras != set(project["optional-dependencies"]):
        yield f"METADATA offers the extras {sorted(extras)}"


def _readme_faults(metadata: Message) -> Iterator[str]:
    if metadata["Description-Content-Type"] != "text/markdown":
        yield f"METADATA calls the README {metadata['Description-Content-Type']}"
    readme = str(metadata.get_payload())
    if not readme.startswith("# Coterie\n"):
        yield f"METADATA has as its README: {readme[:40]!r}"
    targets = re.findall(r"\]\(([^)\s]*)|(?:src|href|srcset)=[\"']?([^\"'\s>]*)", readme)
    for target in filter(None, (a or b for a, b in targets)):
        if not re.match(r"https?://|#", target):
            yield f"a package index would not find {target}, to which the README links"


if __name__ == "__main__":
    sys.exit(main())
