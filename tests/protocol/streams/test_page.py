"""What the page on the wire shows of members with state is so."""

from __future__ import annotations

from tests.ground.documented import ROOT, blocks_of

PAGE = ROOT / "docs" / "protocol.md"


def test_the_example_runs() -> None:
    (example,) = [
        block.text for block in blocks_of(PAGE) if "coterie_protocol.streams" in block.text
    ]
    exec(compile(example, str(PAGE), "exec"), {})  # noqa: S102  # the page's own
