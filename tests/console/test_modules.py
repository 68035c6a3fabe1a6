"""The parts of the page that need no page: their tests are JavaScript, too."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="there is no node to run JavaScript's tests with")
@pytest.mark.parametrize("name", ["format", "past_model"])
def test_what_needs_no_page(tmp_path: Path, name: str) -> None:
    script = Path(__file__).with_name(f"{name}.test.mjs")
    console = tmp_path / "console"
    shutil.copytree(str(files("coterie_server.console")), console)
    # Where nothing says so, older versions take a file for no module.
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    done = subprocess.run(
        [NODE or "node", "--test", str(script)],
        env={**os.environ, "CONSOLE": str(console)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
