"""What a member tells of itself beside its subscription: an address, labels, and its tokens.

It is a block behind the user data (`coterie_protocol.blocks`).  The coordinator reads it; members
and leaders that don't know of it take no notice.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default
from typing import Final

from coterie_protocol._compile import codec_of
from coterie_protocol.blocks import add_block, take_block
from coterie_protocol.codec import encode
from coterie_protocol.consumer import TopicPartitions, flatten, group_by_topic
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.schema import INT64, STRING, Array, field
from coterie_protocol.schema import struct as structure

__all__ = [
    "ADDRESS_BYTES_MAX",
    "LABELS_MAX",
    "LABEL_BYTES_MAX",
    "MemberData",
    "join_member_data",
    "split_member_data",
    "unsound",
]

ADDRESS_BYTES_MAX: Final = 512
LABELS_MAX: Final = 16
#: Of a label's name and of its value, each.
LABEL_BYTES_MAX: Final = 256

_KIND: Final = b"mEMB"
_VERSION: Final = struct.Struct(">h")
#: Beyond this, a block is not read at all; an owned partition takes some four bytes.
_BLOCK_BYTES_MAX: Final = 262_144
#: A member with more tokens than this tells none.
_TOKENS_MAX: Final = 20_000
_TOKEN_MAX: Final = 2**63 - 1

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MemberData:
    """What a member tells of itself."""

    #: Where its work is reached, by whatever protocol; None if it does not say.
    address: str | None = None
    labels: Mapping[str, str] = default(default_factory=dict)
    #: The fencing tokens of what it owned as it joined, for a coordinator that has just started.
    tokens: Mapping[_Key, int] = default(default_factory=dict)


@structure()
class _Label:
    name: str = field(STRING)
    value: str = field(STRING)


@structure()
class _Token:
    token: int = field(INT64)
    partitions: tuple[TopicPartitions, ...] = field(Array(TopicPartitions))


@structure(versions="0")
class ToldData:
    address: str | None = field(STRING, nullable="0+", default=None)
    labels: tuple[_Label, ...] = field(Array(_Label))
    tokens: tuple[_Token, ...] = field(Array(_Token))


def unsound(text: str, bytes_max: int) -> str | None:
    """What is wrong with an address, or a label's name or value; None if nothing is."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "must be text that UTF-8 can express"
    if not 0 < size <= bytes_max:
        return f"must have 1 to {bytes_max} bytes of UTF-8"
    return None if text.isprintable() else "must have no line breaks or control characters"


def join_member_data(own: bytes | None, told: MemberData) -> bytes:
    """Put what a member tells behind an assignor's user data."""
    by_token: dict[int, list[_Key]] = {}
    for partition, token in told.tokens.items() if len(told.tokens) <= _TOKENS_MAX else ():
        by_token.setdefault(token, []).append(partition)
    labels = (_Label(name=name, value=value) for name, value in sorted(told.labels.items()))
    body = ToldData(
        address=told.address,
        labels=tuple(labels),
        tokens=tuple(
            _Token(token=token, partitions=group_by_topic(partitions))
            for token, partitions in sorted(by_token.items())
        ),
    )
    return add_block(own, _KIND, _VERSION.pack(0) + encode(body, 0))


def split_member_data(data: bytes | None) -> tuple[bytes | None, MemberData | None]:
    """The user data without what a member tells, and that, if it makes sense.

    Blocks of other kinds stay behind the user data, whatever their order was.
    """
    rest, told = take_block(data, _KIND)
    return (data, None) if told is None else (rest or None, _read(told))


def _read(block: bytes) -> MemberData | None:
    """Read a block of this version or, as far as it is known, of a later one."""
    if not _VERSION.size <= len(block) <= _BLOCK_BYTES_MAX or _VERSION.unpack_from(block)[0] < 0:
        return None
    try:
        told, _ = codec_of(ToldData, 0).decode(block, _VERSION.size)
    except ProtocolError:
        return None
    address = told.address
    return MemberData(
        None if address is None or unsound(address, ADDRESS_BYTES_MAX) else address,
        {
            each.name: each.value
            for each in told.labels[:LABELS_MAX]
            if not unsound(each.name, LABEL_BYTES_MAX) and not unsound(each.value, LABEL_BYTES_MAX)
        },
        {
            partition: each.token
            for each in told.tokens
            if 0 <= each.token <= _TOKEN_MAX
            for partition in flatten(each.partitions)
        },
    )
