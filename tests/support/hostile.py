"""Ways into the decoders, and bytes that might hurt them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st

from coterie_protocol import (
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from coterie_protocol.consumer import (
    Assignment,
    CooperativeStickyData,
    StickyData,
    Subscription,
    decode_assignment,
    decode_cooperative_sticky_data,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coterie_protocol.schema import Array, Kind, Primitive, WireType, declaration_of
from coterie_protocol.streams import decode_assignment_info, decode_subscription_info
from coterie_protocol.streams._data import AssignmentInfoData, SubscriptionInfoData
from tests.support.samples import filled, sample_of
from tests.support.strategies import MESSAGES

__all__ = ["TARGETS", "Target", "crowds", "liars", "mutated", "tag_floods"]


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder, and what it is there to read."""

    #: "request", "response", "struct", or "embedded" for what members put into opaque bytes, and
    #: "nested" for what those with state put into that.
    kind: str
    cls: type[Any]
    version: int
    read: Callable[[bytes], object]
    write: Callable[[Any], bytes]

    def __str__(self) -> str:
        return f"{self.kind}-{self.cls.__name__}-v{self.version}"

    @property
    def sample(self) -> bytes:
        """A valid message with something in every field."""
        return self.write(filled(self.cls, self.version))


def _target(cls: type[Any], version: int) -> Target:
    """The way in for a message, or for a structure alone."""
    match declaration_of(cls).kind:
        case Kind.REQUEST:
            return Target("request", cls, version, decode_request, partial(_request, version))
        case Kind.RESPONSE:
            read = partial(decode_response, cls, version)
            return Target("response", cls, version, read, partial(_response, version))
        case Kind.STRUCT:
            read = partial(decode, cls, version)
            return Target("struct", cls, version, read, partial(_struct, version))


def _request(version: int, message: Any) -> bytes:
    return encode_request(message, version, 7, "client")[4:]


def _response(version: int, message: Any) -> bytes:
    return encode_response(message, version, 7)[4:]


def _struct(version: int, value: Any) -> bytes:
    return encode(value, version)


def _embedded_target(cls: type[Any], version: int) -> Target:
    """The way in for a structure as it is found in the bytes of a group."""
    readers = {
        Subscription: decode_subscription,
        Assignment: decode_assignment,
        StickyData: decode_sticky_data,
        CooperativeStickyData: decode_cooperative_sticky_data,
    }
    writers = {
        Subscription: partial(_subscription, version),
        Assignment: partial(_assignment, version),
    }
    write = writers.get(cls, partial(_struct, version))
    return Target("embedded", cls, version, readers[cls], write)


def _nested_target(cls: type[Any], version: int) -> Target:
    """The way in for what follows an assignor's own data."""
    readers: dict[type[Any], Callable[[bytes], object]] = {
        SubscriptionInfoData: decode_subscription_info,
        AssignmentInfoData: decode_assignment_info,
    }
    return Target("nested", cls, version, readers[cls], partial(_nested, version))


def _nested(version: int, value: Any) -> bytes:
    """With numbers of versions that fit each other."""
    if isinstance(value, SubscriptionInfoData):
        value = dataclasses.replace(value, latest_supported_version=version)
    return encode(dataclasses.replace(value, version=version), version)


def _subscription(version: int, value: Any) -> bytes:
    return encode_subscription(value, version)


def _assignment(version: int, value: Any) -> bytes:
    return encode_assignment(value, version)


_EMBEDDED = (Subscription, Assignment, StickyData, CooperativeStickyData)
_NESTED = (SubscriptionInfoData, AssignmentInfoData)

#: Every message in every version, and what is embedded in messages.
TARGETS = [
    *(_target(cls, version) for cls, version in MESSAGES),
    *(_embedded_target(cls, version) for cls, version in MESSAGES if cls in _EMBEDDED),
    *(_nested_target(cls, version) for cls, version in MESSAGES if cls in _NESTED),
]


# Valid bytes that were changed

#: What a liar writes where a length, a count or a size is expected: huge, negative, just past
#: what the type holds, in plain and in compact form, also longer than a compact form may be.
HOSTILE_NUMBERS = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x00\x00\xff\xff",
    b"\x00\xff\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff",
    b"\xff\xfe",
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80\x01",
    b"\xff\x7f",
    b"\x80\x80\x02",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x00",
)

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def mutated(draw: Draw, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes after one to three changes."""
    data: bytes = draw(valid)
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from((_flip, _truncate, _overwrite, _insert, _remove, _splice)))
        data = change(draw, data)
    return data


def _position(draw: Draw, data: bytes) -> int:
    position: int = draw(st.integers(0, len(data)))
    return position


def _flip(draw: Draw, data: bytes) -> bytes:
    at = _position(draw, data)
    mask = 1 << draw(st.integers(0, 7))
    return data[:at] + bytes(byte ^ mask for byte in data[at : at + 1]) + data[at + 1 :]


def _truncate(draw: Draw, data: bytes) -> bytes:
    return data[: _position(draw, data)]


def _overwrite(draw: Draw, data: bytes) -> bytes:
    at = _position(draw, data)
    number: bytes = draw(st.sampled_from(HOSTILE_NUMBERS))
    return data[:at] + number + data[at + len(number) :]


def _insert(draw: Draw, data: bytes) -> bytes:
    at = _position(draw, data)
    more: bytes = draw(st.sampled_from(HOSTILE_NUMBERS) | st.binary(max_size=20))
    return data[:at] + more + data[at:]


def _remove(draw: Draw, data: bytes) -> bytes:
    at = _position(draw, data)
    return data[:at] + data[at + draw(st.integers(1, 8)) :]


def _splice(draw: Draw, data: bytes) -> bytes:
    """Carry on in another place of the same bytes."""
    return data[: _position(draw, data)] + data[_position(draw, data) :]


# Bytes made to cost much


def crowds(target: Target, number: int, text: str) -> Iterator[bytes]:
    """For each array: the smallest message with that many of the smallest elements in it.

    Strings and bytes are `text`.  Nothing legitimate makes more of fewer bytes.
    """
    for message in _crowded(target.cls, target.version, number, text):
        yield target.write(message)


def _crowded(cls: type[Any], version: int, number: int, text: str) -> Iterator[Any]:
    smallest = _smallest(cls, version, text)
    for spec in declaration_of(cls).fields:
        if version not in spec.versions:
            continue
        is_array = isinstance(spec.type, Array)
        inner = spec.type.element if isinstance(spec.type, Array) else spec.type
        if is_array:
            crowd = (_smallest_of(inner, version, text),) * number
            yield dataclasses.replace(smallest, **{spec.name: crowd})
        if isinstance(inner, type):
            for part in _crowded(inner, version, number, text):
                value = (part,) if is_array else part
                yield dataclasses.replace(smallest, **{spec.name: value})


def _smallest(cls: type[Any], version: int, text: str) -> Any:
    return cls(
        **{
            spec.name: spec.default
            if version not in spec.versions or spec.tag is not None
            else _smallest_of(spec.type, version, text)
            for spec in declaration_of(cls).fields
        }
    )


def _smallest_of(wire_type: WireType, version: int, text: str) -> Any:
    match wire_type:
        case Array():
            return ()
        case Primitive.STRING:
            return text
        case Primitive.BYTES | Primitive.RECORDS:
            return text.encode()
        case Primitive():
            return sample_of(wire_type, version)
    return _smallest(wire_type, version, text)


_HUGE_NUMBERS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\xff\x7f", b"\x7f")


def liars(target: Target) -> Iterator[bytes]:
    """A huge number wherever a length or count might stand, and plenty of bytes behind it."""
    sample = target.sample
    for at in range(len(sample)):
        for number in _HUGE_NUMBERS:
            filler = (b"\0" if at % 2 else b"\1") * 200
            yield sample[:at] + number + sample[at + len(number) :] + filler


def tag_floods(target: Target) -> Iterator[bytes]:
    """A flexible message whose last byte, its count of tagged fields, announces hundreds."""
    if target.version in declaration_of(target.cls).flexible:
        for tag in (b"\x00", b"\x7f", b"\xff\xff\xff\xff\x0f"):
            yield target.sample[:-1] + b"\xac\x02" + (tag + b"\0") * 300
