"""Our client reads files of properties, and the JAAS in them, as Java and Kafka do."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from coterie_client.errors import ConfigurationError
from coterie_client.wire.properties import parse_jaas, parse_properties
from tests.interop.java_tools import run_java_source

pytestmark = pytest.mark.interop

_SOURCE: Final = Path(__file__).with_name("java") / "PropertyFiles.java"
_TEXTS: Final = 3_000
#: What property files give a meaning to, and some more.
_PIECES: Final = [
    *"ab=: \t\f\\#!\n\r\"'",
    "\\\n",
    "\\\\\n",
    "\r\n",
    "\\u00fc",
    "\\u12",
    "\xa0",
    "ü",
]
_JAAS: Final = [
    *('"', "'", "\\", '\\"', "\\n", "\\101", "\\8", " ", "\n", "=", ";", "a", "b-c", "//", "/*"),
    *("*/", " user=ann", ' password="a b"', " x='y' ", "ü"),
]


@pytest.fixture(scope="module", autouse=True)
def _needs_java(java_compiler: None) -> None:
    """Skip without it."""


def texts_of(pieces: list[str], begin: str = "", end: str = "") -> list[str]:
    """Texts that are as odd as can be, and always the same."""
    chance = random.Random(17)
    return [
        begin + "".join(chance.choices(pieces, k=chance.randrange(12))) + end for _ in range(_TEXTS)
    ]


def java_reads(kind: str, texts: list[str]) -> list[dict[str, str] | None]:
    """What Java reads in each; None where it refuses."""
    lines = "".join(f"{kind} {text.encode('latin-1').hex()}\n" for text in texts)
    found = run_java_source(_SOURCE, stdin=lines).stdout.splitlines()
    return [None if line == "ERROR" else dict(map(_pair, line.split())) for line in found]


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return _text(key), _text(value)


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-16-be")


def we_read(read: Callable[[str], Mapping[str, str]], text: str) -> dict[str, str] | None:
    """What we read in a text; None where we refuse."""
    try:
        return dict(read(text))
    except ConfigurationError:
        return None


def test_property_files() -> None:
    texts = texts_of(_PIECES)
    found = [_without_nothing(we_read(parse_properties, text)) for text in texts]
    theirs = [_without_nothing(each) for each in java_reads("P", texts)]
    assert sum(each is None for each in theirs) > 10
    assert list(zip(texts, found, strict=True)) == list(zip(texts, theirs, strict=True))


def _without_nothing(found: dict[str, str] | None) -> dict[str, str] | None:
    """Without the key that is empty, which Java finds at the end of some files."""
    return None if found is None else {k: v for k, v in found.items() if k}


def test_jaas() -> None:
    """We may take what Kafka refuses; what it takes, we read as it does."""

    def read(text: str) -> Mapping[str, str]:
        module = parse_jaas(text)
        return {"": module.name, **module.options}

    texts = texts_of(_JAAS, "a.Module required", " ;")
    taken = [(t, theirs) for t, theirs in zip(texts, java_reads("J", texts), strict=True) if theirs]
    assert len(taken) > 50
    assert [(text, we_read(read, text)) for text, _ in taken] == taken
