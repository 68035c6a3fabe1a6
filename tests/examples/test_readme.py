"""examples/README.md says how each example is run."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from tests.examples.program import EXAMPLES

ROOT = EXAMPLES.parent
PAGES = (EXAMPLES / "README.md", ROOT / "docs" / "examples.md")


def defaults(of: str) -> set[str]:
    """What examples use of a kind, unless told otherwise."""
    texts = (path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py"))
    return {each for text in texts for each in re.findall(of, text)}


def test_what_examples_leave_is_said_and_ignored_by_git() -> None:
    left = defaults(r'default=Path\("([^"]+)"\)')
    assert len(left) >= 5
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert all(f"`{name}`" in text for name in left - {"state"}), page
    ignored = {line.strip("/*") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert {*left, "a", "b"} <= ignored


def test_examples_that_serve_do_so_on_different_ports() -> None:
    router, service = (
        re.findall(r"default=(\d{4})", (EXAMPLES / f"counter_{name}.py").read_text())
        for name in ("router", "service")
    )
    receiver = re.findall(r"else (\d{4})", (EXAMPLES / "webhook_receiver.py").read_text())
    ports = [*router, *service, *receiver]
    assert len(ports) == len({*ports}) == 3
    assert defaults(r"127.0.0.1:(\d{4})/hook") == {*receiver}


@pytest.mark.slow
@pytest.mark.parametrize("example", ["webhook_receiver.py", "counter_router.py"])
def test_port_that_is_taken_is_told_in_a_sentence(example: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["--port", port] if example.startswith("counter") else [port]
        command = [sys.executable, str(EXAMPLES / example), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"'127.0.0.1', {port}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_has_its_command_in_one_line(example: str) -> None:
    command = "pytest" if example.startswith("test_") else "python"
    assert f"`{command} examples/{example}" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
