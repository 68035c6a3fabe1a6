"""What is ordered of groups, in sentences; and orders that make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.operation_text import operation_sentences
from coterie_cli.output import time_text

AT = 1_700_000_000_000


def operation(**more: Any) -> dict[str, Any]:
    """A drain of i2, or something else."""
    values: dict[str, Any] = {
        "operation": "drain",
        "member": None,
        "instance": "i2",
        "partitions": None,
        "at_a_time": 2,
        "left": 3,
        "by": "",
        "reason": "",
        "since_ms": AT,
        "until_ms": None,
        "followed": True,
    }
    return values | more


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "i2 is drained, 2 at a time, has 3 partitions left, since {at}."),
        (
            {"by": "ann", "reason": "disk errors."},
            "i2 is drained, 2 at a time, has 3 partitions left, since {at}, by ann: disk errors.",
        ),
        ({"at_a_time": 0, "left": 1}, "i2 is drained, has 1 partition left, since {at}."),
        (
            {"operation": "pin", "partitions": {"t": [0, 1, 2]}, "left": None},
            "t[0-2] is pinned to i2 since {at}.",
        ),
        (
            {"operation": "keep-from", "partitions": {"t": [4]}, "instance": None, "member": "m"},
            "t[4] is kept from m since {at}.",
        ),
        (
            {"operation": "freeze", "instance": None, "until_ms": AT},
            "It is frozen until {at}, since {at}.",
        ),
        ({"operation": "later"}, "later of i2 since {at}."),
        (
            {"followed": False, "operation": "pin", "partitions": {"t": [0]}},
            "t[0] is pinned to i2 since {at}. It is not followed: no member could lead by it.",
        ),
    ],
)
def test_sentences(more: dict[str, Any], sentence: str) -> None:
    (found,) = operation_sentences([operation(**more)])
    assert found == sentence.format(at=time_text(AT))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("drain", "g"), "--instance"),
        (("drain", "g", "--member", "m", "--instance", "i"), "--instance"),
        (("drain", "g", "--member", "m", "--at-once", "--at-a-time", "2"), "--at-once"),
        (("pin", "g", "--instance", "i", "--topic", "t"), "--topic t:0"),
        (("pin", "g", "--instance", "i", "--topic", "t:0-99999"), "10000"),
        (("unpin", "g", "--topic", "t:x"), "--topic"),
        (("freeze", "g", "--for", "soon"), "30m"),
        (("freeze", "g", "--for", "0s"), "30m"),
    ],
)
def test_misuse_is_a_sentence(words: tuple[str, ...], hint: str) -> None:
    result = CliRunner().invoke(app, ["groups", *words], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert hint in result.stderr
