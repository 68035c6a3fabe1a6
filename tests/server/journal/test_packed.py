"""Files of journals that were compressed, also damaged ones: read by whatever there is for it."""

from __future__ import annotations

import errno
import gzip
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from coterie_server.journal.packed import DamagedError, lines_of

#: Enough for some blocks of either form, each of which is unpacked as a whole.
_RANDOM: Final = random.Random(1)
LINES: Final = [f"{number} {_RANDOM.randbytes(40).hex()}\n".encode() for number in range(20_000)]


def zstd(text: bytes) -> bytes:
    """Compress by zstd."""
    sink = pa.BufferOutputStream()
    with pa.output_stream(sink, compression="zstd") as stream:
        stream.write(text)
    return bytes(sink.getvalue())


PACK: Final[dict[str, Callable[[bytes], bytes]]] = {"gz": gzip.compress, "zst": zstd}


@pytest.fixture(params=PACK)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A compressed file."""
    path = tmp_path / f"journal-1-0000000000000001.jsonl.{request.param}"
    path.write_bytes(PACK[request.param](b"".join(LINES)))
    return path


def test_lines_are_those_that_were_compressed(packed: Path) -> None:
    assert list(lines_of(packed)) == LINES


def test_lines_before_the_end_of_a_file_that_is_cut_off_are_read(packed: Path) -> None:
    data = packed.read_bytes()
    packed.write_bytes(data[: len(data) // 2])
    found: list[bytes] = []
    with pytest.raises(DamagedError, match=r"the rest can't be unpacked: .+"):
        found.extend(lines_of(packed))
    # What a block has whole is unpacked, and a block has 128 KB at most.
    assert len(found) > len(LINES) // 4
    assert found == LINES[: len(found)]


def test_file_that_is_not_there_is_not_damaged(packed: Path) -> None:
    packed.unlink()
    with pytest.raises(FileNotFoundError) as gone:
        next(lines_of(packed))
    assert gone.value.errno == errno.ENOENT


def test_file_that_is_not_there_leaves_nothing_to_complain_of(packed: Path) -> None:
    """Python 3.13 says it if what was opened by half can't be closed, 3.11 in development mode."""
    packed.unlink()
    read = f"next(lines_of(Path({str(packed)!r})))"
    program = (
        "from pathlib import Path\n"
        "from coterie_server.journal.packed import lines_of\n"
        f"try: {read}\n"
        "except FileNotFoundError: pass\n"
    )
    command = [sys.executable, "-X", "dev", "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # ours
    assert done.stderr == ""
