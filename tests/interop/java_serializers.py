"""Kafka's own serializers, in a Java program that runs beside the tests.

`java/Serializers.java` answers a line of JSON with a line of JSON; `JavaSerializers` is its other
end.  It runs with the Kafka that all interop tests use, and with the last one before Kafka 4, which
dropped the oldest versions of several APIs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coterie_protocol.consumer import Assignment, Subscription
from tests.interop.java_pipe import JavaPipe
from tests.interop.java_tools import java_source_command
from tests.support import kafka_json

__all__ = ["JavaSerializers"]

_SOURCE: Final = Path(__file__).with_name("java") / "Serializers.java"
_OLD_POM: Final = Path(__file__).with_name("java") / "old-kafka" / "pom.xml"
_BUILD_DIR: Final = Path(__file__).parents[2] / "build" / "interop"
_MAVEN_TIMEOUT_S: Final = 600.0

_OTHER_NAMES: Final = {
    Subscription: "ConsumerProtocolSubscription",
    Assignment: "ConsumerProtocolAssignment",
}


class JavaSerializers(JavaPipe):
    """The running program, as a context manager."""

    def __init__(self, *, old: bool = False) -> None:
        """Run with Kafka 3.9 if `old`, with the Kafka of all other tests if not."""
        command = java_source_command(_SOURCE)
        if old:
            place = command.index("-cp") + 1
            # The compiled program stays in front; what is behind it is the other Kafka.
            classes = command[place].split(os.pathsep)[0]
            command[place] = f"{classes}{os.pathsep}{_old_classpath()}"
        super().__init__(command)

    def frame(
        self,
        message: Any,
        version: int,
        header: Mapping[str, Any],
        tags: Mapping[int, bytes] | None = None,
    ) -> bytes:
        """The frame of a request or response, with unknown tagged fields everywhere if given."""
        answer = self.ask(
            "encode",
            message=type(message).__name__,
            version=version,
            json=kafka_json.to_json(message, version),
            header=header,
            tags={str(tag): value.hex() for tag, value in (tags or {}).items()},
        )
        payload = bytes.fromhex(answer["hex"])
        return len(payload).to_bytes(4, "big") + payload

    def read_frame(self, cls: type[Any], version: int, frame: bytes) -> tuple[dict[str, Any], Any]:
        """The header, as JSON, and the message in a frame."""
        hexadecimal = frame[4:].hex()
        answer = self.ask(
            "decode", message=cls.__name__, version=version, hex=hexadecimal, header=True
        )
        assert answer["left"] == 0, f"{answer['left']} bytes left over"
        return answer["header"], kafka_json.from_json(cls, version, answer["json"])

    def embedded(self, structure: Any, version: int) -> bytes:
        """A subscription or assignment behind its version."""
        answer = self.ask(
            "encode",
            message=_OTHER_NAMES[type(structure)],
            version=version,
            json=kafka_json.to_json(structure, version),
            prefixed=True,
        )
        return bytes.fromhex(answer["hex"])

    def read_embedded(self, cls: type[Any], version: int, data: bytes) -> Any:
        """The subscription or assignment behind its version."""
        answer = self.ask(
            "decode", message=_OTHER_NAMES[cls], version=version, hex=data.hex(), prefixed=True
        )
        assert (answer["version"], answer["left"]) == (version, 0)
        return kafka_json.from_json(cls, version, answer["json"])


def _old_classpath() -> str:
    """The class path of the old client, resolved by Maven when its `pom.xml` is new."""
    digest = hashlib.sha256(_OLD_POM.read_bytes()).hexdigest()[:16]
    cached = _BUILD_DIR / f"classpath-old-{digest}.txt"
    if cached.exists():
        classpath = cached.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in classpath.split(os.pathsep)):
            return classpath
    with tempfile.TemporaryDirectory(dir=_BUILD_DIR) as scratch:
        resolved = Path(scratch) / "classpath.txt"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={resolved}"]
        subprocess.run(
            ["mvn", "--quiet", "--batch-mode", "--file", str(_OLD_POM), *goal],
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=_MAVEN_TIMEOUT_S,
        )
        classpath = resolved.read_text(encoding="utf-8").strip()
        # Moved into place when complete: test processes may run side by side.
        resolved.write_text(classpath, encoding="utf-8")
        resolved.replace(cached)
    return classpath
