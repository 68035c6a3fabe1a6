"""Hunt for bytes that a decoder cannot take, guided by coverage, for as long as one likes.

    make fuzz                     for a minute
    make fuzz FUZZ_SECONDS=3600   for an hour
    make fuzz ARGS=build/fuzz/crash-...   what an earlier run found, once more

The first two bytes of an input choose a decoder, the rest is what it gets.  Three things must hold:
nothing but ProtocolError is raised; the compiled parser says what construct's own reading of the
format says; and what was read can be written, and read back as the same.  A breach ends the run
with a traceback, a non-zero status and the input in build/fuzz.  Whatever the run learns of
interesting inputs stays in build/fuzz/corpus for the next one.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

with atheris.instrument_imports(include=["coterie_protocol"]):
    from coterie_protocol import FrameReader, ProtocolError, decode, encode
    from coterie_protocol._compile import Codec, codec_of, format_of
    from coterie_protocol._format import Malformed
    from coterie_protocol.streams import (
        encode_assignment_info,
        encode_subscription_info,
        join_user_data,
        split_user_data,
    )
    from coterie_protocol.streams._data import AssignmentInfoData, SubscriptionInfoData
    from tests.support.hostile import TARGETS, Target, crowds, tag_floods
    from tests.support.strategies import MESSAGES

OUT = Path(__file__).resolve().parents[2] / "build" / "fuzz"
CORPUS = OUT / "corpus"

LIBFUZZER_OPTIONS = [
    f"-artifact_prefix={OUT}/",
    "-max_len=600",
    # Five seconds for one input, or a gigabyte in all, would be a finding too.
    "-timeout=5",
    "-rss_limit_mb=1024",
    "-print_final_stats=1",
]

# Selectors: first the ways in, then the formats themselves, then the framing.
WAYS = len(TARGETS) + len(MESSAGES) + 1


REWRITERS: dict[type[Any], Callable[[Any], bytes]] = {
    SubscriptionInfoData: encode_subscription_info,
    AssignmentInfoData: encode_assignment_info,
}


def one_input(data: bytes) -> None:
    """Let the decoder that the first two bytes choose have the rest."""
    number, rest = int.from_bytes(data[:2]) % WAYS, data[2:]
    if number < len(TARGETS):
        read_by_target(TARGETS[number], rest)
    elif number < WAYS - 1:
        read_twice(*MESSAGES[number - len(TARGETS)], rest)
    else:
        cut(rest)


def read_by_target(target: Target, data: bytes) -> None:
    """As a server or client reads: with header, version or whatever comes before."""
    try:
        found = target.read(data)
    except ProtocolError as error:
        str(error)  # works as well
        return
    if target.kind == "nested":
        # What comes of these is more than the structure, and it can be written as well.
        written = REWRITERS[target.cls](found)
        assert target.read(written) == found, written
        assert split_user_data(join_user_data(data, written)) == (data, written)


def read_twice(cls: type[Any], version: int, data: bytes) -> None:
    """By the compiled parser and by construct; then write and read again what came out."""
    fast, slow = compiled(cls, version, data), interpreted(cls, version, data)
    assert fast == slow, (cls, version, fast, slow)
    result, end = fast
    if end is not None:
        written = encode(result, version)
        assert decode(cls, version, written) == result, written


Verdict = tuple[Any, int | None]


def compiled(cls: type[Any], version: int, data: bytes) -> Verdict:
    """A message and where it ends; or field and offset of what is wrong, and no end."""
    try:
        return codec_of(cls, version).decode(data)
    except ProtocolError as error:
        return (error.field or "", error.offset), None


def interpreted(cls: type[Any], version: int, data: bytes) -> Verdict:
    """The same as construct sees it."""
    stream = io.BytesIO(data)
    try:
        return format_of(cls, version).parse_stream(stream), stream.tell()
    except Malformed as error:
        path = error.path.removeprefix("(parsing)").removeprefix(".")
        return (path, error.offset), None


def cut(data: bytes) -> None:
    """Into frames, in pieces of the size that the first byte says."""
    size = max(data[0], 1) if data else 1
    reader = FrameReader(limit=100)
    for start in range(1, len(data), size):
        with contextlib.suppress(ProtocolError):
            reader.feed(data[start : start + size])
        assert reader.buffered <= 4 + 100 + size


def instrument(codec: Codec) -> None:
    """Have the generated parser report its coverage: it was made at run time, not imported."""
    atheris.instrument_func(codec.parse)
    # Errors are explained by the frame whose code is the parser's, and that is another one now.
    object.__setattr__(codec, "parse_code", codec.parse.__code__)


def seeds() -> Iterator[bytes]:
    """Valid and nearly valid inputs for every decoder."""
    for number, target in enumerate(TARGETS):
        selector = number.to_bytes(2)
        for data in (target.sample, *crowds(target, 3, "é"), *tag_floods(target)):
            yield selector + data
    for number, (cls, version) in enumerate(MESSAGES, start=len(TARGETS)):
        target = TARGETS[number - len(TARGETS)]
        assert (target.cls, target.version) == (cls, version)
        yield number.to_bytes(2) + target.sample[HEADER_SIZES[target.kind] :]
    yield (WAYS - 1).to_bytes(2) + b"\x05" + b"\0\0\0\x03abc" * 5


# What precedes the message itself in a target's sample, give or take the tagged fields.
HEADER_SIZES = {"request": 16, "response": 4, "struct": 0}


def main() -> None:
    """Prepare parsers and seeds, and hand over to libFuzzer, which does not come back."""
    for cls, version in MESSAGES:
        instrument(codec_of(cls, version))
    CORPUS.mkdir(parents=True, exist_ok=True)
    arguments = sys.argv[1:]
    replays = any(not argument.startswith("-") for argument in arguments)
    if not replays:
        for number, seed in enumerate(seeds()):
            (CORPUS / f"seed-{number}").write_bytes(seed)
        arguments = [*arguments, str(CORPUS)]
    atheris.Setup([sys.argv[0], *LIBFUZZER_OPTIONS, *arguments], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
