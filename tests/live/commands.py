"""Runs the `coterie` command against a coordinator, be it Coterie's or a Kafka broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from typer.testing import CliRunner, Result

from coterie_cli.main import app
from tests.live.daemon import eventually

__all__ = ["CommandRunner"]

_MEMBER: Final = """
import asyncio, sys
from coterie_client import Group

async def work(partition):
    await partition.commit(7, "half done")
    await asyncio.sleep(600)

async def main():
    async with Group(sys.argv[1], "static", topics=["orders"], instance="i1") as group:
        await group.run(work)

asyncio.run(main())
"""


class CommandRunner:
    """Runs commands in this process."""

    def __init__(self, address: str, http_port: int | None = None) -> None:
        self._address = address
        self._environ = {"COTERIE_BOOTSTRAP": address, "COLUMNS": "200"}
        if http_port is not None:
            self._environ["COTERIE_HTTP"] = f"127.0.0.1:{http_port}"
        self._runner = CliRunner()

    @contextmanager
    def static_member(self) -> Iterator[None]:
        """Start a member of the group `static`, with the instance id i1, and have it commit."""
        command = [sys.executable, "-c", _MEMBER, self._address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as member:
            try:
                eventually(self._has_committed, "commits")
                yield
            finally:
                member.kill()

    def _has_committed(self) -> bool:
        result = self._runner.invoke(app, ["offsets", "show", "static"], env=self._environ)
        return result.exit_code == 0 and result.stdout.count("half done") == 3

    def run(self, *words: str, code: int = 0) -> Result:
        """Run a command, and check its exit code."""
        result = self._runner.invoke(app, words, env=self._environ)
        assert result.exit_code == code, result.output
        return result

    def told(self, *words: str) -> str:
        """The output of a command."""
        return self.run(*words).stdout

    def json(self, *words: str) -> Any:
        """The output of a command with `--json`."""
        return json.loads(self.told(*words, "--json"))

    def completed(self, *words: str) -> list[str]:
        """What the shell offers for the last of these words."""
        environ = {
            **self._environ,
            "_COTERIE_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("coterie", *words)),
            "COMP_CWORD": str(len(words)),
        }
        result = self._runner.invoke(app, [], env=environ, prog_name="coterie")
        return result.stdout.split()

    def refused(self, *words: str, code: int = 1) -> str:
        """The error that a failing command prints."""
        return self.run(*words, code=code).stderr
