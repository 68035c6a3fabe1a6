"""What the tests of object stores need: a server that speaks S3, and Hadoop's file system for it.

`make object-store` gets both: moto from the lock, and by Maven the version of hadoop-aws that fits
PySpark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import pyspark

from tests.live.daemon import HOST, eventually
from tests.support.ports import free_port

__all__ = ["ObjectStore", "hadoop_aws", "moto_server"]

#: The server looks no closer.
_SIGNED: Final = {"Authorization": "AWS any:any"}

_ROOT: Final = Path(__file__).resolve().parents[2]
_POM: Final = Path(__file__).with_name("hadoop-aws.xml")
_MAVEN_TIMEOUT_S: Final = 1_200.0
_ANSWER_TIMEOUT_S: Final = 30.0


def moto_server() -> str | None:
    """The command that starts the server; None if it is not installed."""
    installed = Path(sys.prefix) / "object-store" / "bin" / "moto_server"
    return os.environ.get("MOTO_SERVER") or (str(installed) if installed.exists() else None)


def hadoop_aws() -> Sequence[Path]:
    """The jars of the file system; Maven gets them once. Empty if there is no Maven."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    folder = _ROOT / "build" / f"hadoop-aws-{version}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            return ()
        aside = folder.with_name(f"{folder.name}.{os.getpid()}")
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(_POM)]
        wanted = [f"-Dhadoop.version={version}", f"-DoutputDirectory={aside}"]
        subprocess.run(
            [*command, "dependency:copy-dependencies", *wanted],
            check=True,
            timeout=_MAVEN_TIMEOUT_S,
        )
        aside.replace(folder)
    return sorted(folder.glob("*.jar"))


class ObjectStore:
    """A server that speaks S3 and keeps what it is given in memory, within the block."""

    def __init__(self, command: str, log: Path) -> None:
        port = free_port()
        self.address = f"http://{HOST}:{port}"
        self._command = [command, "-H", HOST, "-p", str(port)]
        self._log = log

    def __enter__(self) -> Self:
        """Start it, and wait until it answers."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        eventually(self._answers, "the object store answers", 120)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()

    def put(self, place: str, data: bytes = b"") -> None:
        """Store an object, or make a bucket."""
        # With any other type the server takes the content for a form, and takes for ever.
        headers = _SIGNED | {"Content-Type": "application/octet-stream"}
        self._ask(urllib.request.Request(f"{self.address}/{place}", data, headers, method="PUT"))  # noqa: S310  # this machine

    def get(self, place: str) -> bytes:
        """An object, or what is said of a bucket."""
        return self._ask(urllib.request.Request(f"{self.address}/{place}", headers=_SIGNED))  # noqa: S310  # this machine

    def _ask(self, request: urllib.request.Request) -> bytes:
        with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S) as answer:  # noqa: S310  # this machine
            content: bytes = answer.read()
        return content

    def _answers(self) -> bool:
        try:
            self.get("")
        except OSError:
            return False
        return True
