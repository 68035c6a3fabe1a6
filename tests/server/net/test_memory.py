"""What clients that never finish make a process hold, and that the system gets it back."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from coterie_server.net import Exchange, Listener
from tests.server.net.doubles import until

CLIENTS = 6
PIECE = bytes(1_048_576)
PIECES_EACH = 95
FRAME_BYTES = 104_857_600

#: The default of what all unfinished requests may take, and what the rest of the process does
#: meanwhile: buffers that grow by an eighth, and the pieces that are sent.
HELD_MAX_MB = 128 * 9 // 8 + 40
LEFT_MAX_MB = 30

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


class UnreachableHandler:
    """Never gets a request, since none is ever complete."""

    def handle(self, exchange: Exchange) -> None:
        """Fail."""
        raise AssertionError(exchange)


def memory_mb(name: str) -> int:
    """A line of the process's status: `VmRSS` now, `VmHWM` at most so far."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) // 1024


async def main() -> None:
    """Send six requests of 100 MB but for their ends; print what they took, and what they left."""
    listener = Listener(UnreachableHandler())
    await listener.start("127.0.0.1", 0)
    before_mb = memory_mb("VmRSS")
    writers = []
    for _ in range(CLIENTS):
        _, writer = await asyncio.open_connection(*listener.addresses[0])
        writers.append(writer)
        writer.write(FRAME_BYTES.to_bytes(4))
        try:
            for _ in range(PIECES_EACH):
                writer.write(PIECE)
                await writer.drain()
        except ConnectionError:
            pass  # this was the one too many
    for writer in writers:
        writer.close()
    await until(lambda: listener.stats().open == 0)
    await listener.close(0)
    gc.collect()
    sys.stdout.write(f"{memory_mb('VmHWM') - before_mb} {memory_mb('VmRSS') - before_mb}\n")


@linux
@pytest.mark.parametrize("loop", [pytest.param("asyncio", marks=pytest.mark.slow), "uvloop"])
def test_unfinished_requests_are_bounded_and_leave_nothing(loop: str) -> None:
    """Six clients with a hundred megabytes each, in a process of its own, whose size is told."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.server.net.test_memory", loop],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    held_mb, left_mb = map(int, ran.stdout.splitlines()[-1].split())
    assert held_mb < HELD_MAX_MB
    assert left_mb < LEFT_MAX_MB


if __name__ == "__main__":
    (asyncio.run if sys.argv[1] == "asyncio" else uvloop.run)(main())
