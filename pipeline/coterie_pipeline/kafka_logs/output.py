"""Writing a journal into a folder of its own, which is there whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from coterie_pipeline.kafka_logs.errors import KafkaLogsError
from coterie_protocol.journal import Event, Line, write_line
from coterie_protocol.journal_text import SEGMENT, segment_name

__all__ = ["MARK", "JournalFiles", "folder_in_place"]

#: The file by which a folder is known to be one that an import wrote; Spark passes over such names.
MARK: Final = "_kafka-logs.json"

#: Files are as large as those that Coterie's own nodes write.
_SEGMENT_BYTES: Final = 64 * 1024 * 1024


@contextmanager
def folder_in_place(out: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `out` when all went well.

    What another import left at `out` is replaced; anything else that is there is refused.
    """
    refuse_foreign(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh, former = (out.with_name(f".{out.name}.{part}") for part in ("importing", "former"))
    for left in (fresh, former):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir()
    try:
        yield fresh
        if out.exists():
            out.rename(former)
        fresh.rename(out)
    finally:
        for left in (fresh, former):
            shutil.rmtree(left, ignore_errors=True)


def refuse_foreign(out: Path) -> None:
    """Refuse a folder that has anything in it but what an import wrote."""
    if not out.exists():
        return
    if not out.is_dir():
        raise KafkaLogsError(f"{out} is no folder.")
    names = sorted(path.name for path in out.iterdir())
    if names and MARK not in names:
        raise KafkaLogsError(
            f"{out} has something in it that no import of Kafka's logs wrote, such as {names[0]}; "
            "choose another folder."
        )
    for name in names:
        if name != MARK and SEGMENT.fullmatch(name) is None:
            raise KafkaLogsError(f"{out} has {name} in it, which no import wrote; take it away.")


class JournalFiles:
    """The journals of any number of nodes in one folder, each node's lines numbered from 1 on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_seq: dict[str, int] = {}
        self._last_ms: dict[str, int] = {}
        self._files: dict[str, TextIO] = {}
        self._sizes: dict[str, int] = {}

    @property
    def lines(self) -> Mapping[str, int]:
        """How many lines each node has."""
        return dict(sorted(self._last_seq.items()))

    def write(self, ts_ms: int, node: str, event: Event) -> None:
        """Write the next line of a node."""
        # What waited for another line to complete it can come behind what was stored meanwhile.
        ts_ms = self._last_ms[node] = max(ts_ms, self._last_ms.get(node, ts_ms))
        seq = self._last_seq[node] = self._last_seq.get(node, 0) + 1
        text = write_line(Line(ts_ms, node, seq, event)) + "\n"
        if self._sizes.get(node, _SEGMENT_BYTES) >= _SEGMENT_BYTES:
            self._begin(node, seq)
        self._sizes[node] += self._files[node].write(text)

    def mark(self, summary: Mapping[str, Any]) -> None:
        """Leave a word about what was done, and by that the mark."""
        text = json.dumps(summary, indent=2, sort_keys=True)
        (self._folder / MARK).write_text(text + "\n", encoding="utf-8")

    def close(self) -> None:
        """End all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _begin(self, node: str, seq: int) -> None:
        if node in self._files:
            self._files[node].close()
        path = self._folder / segment_name(node, seq)
        self._files[node] = path.open("w", encoding="utf-8", newline="\n")
        self._sizes[node] = 0
