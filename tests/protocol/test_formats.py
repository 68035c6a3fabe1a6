"""The compiled code against construct's own reading of the same format, and what `encode` refuses.

Each format can be interpreted, slowly, and compiled.  The two were written apart, so where they
agree on bytes, messages and verdicts, neither has a mistake of its own.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import EncodeError, ProtocolError, decode, encode
from coterie_protocol._compile import codec_of, format_of
from coterie_protocol._format import Malformed
from coterie_protocol.messages import DescribeClientQuotasResponse, HeartbeatRequest
from coterie_protocol.schema import Array, Primitive, WireType, declaration_of
from tests.support.cases import for_each
from tests.support.every_message import by_class, by_class_and_version, versioned
from tests.support.hostile import mutated
from tests.support.oracle_examples import examples_of
from tests.support.samples import (
    Place,
    filled,
    places,
    unlike_default,
    with_value,
)
from tests.support.strategies import MESSAGES, versions_of

every_class = for_each("cls", dict.fromkeys(cls for cls, _ in MESSAGES))

INTEGER_BITS = {Primitive.INT8: 8, Primitive.INT16: 16, Primitive.INT32: 32, Primitive.INT64: 64}
TEXT_BYTES_MAX = 32767


# Agreement


@dataclass(frozen=True, slots=True)
class Refusal:
    """Where both refuse the bytes; the words may differ."""

    field: str | None
    offset: int | None


def interpreted(cls: type[Any], version: int, data: bytes) -> tuple[Any, int] | Refusal:
    """Read by the interpreted format: the message and where it ends, or the refusal."""
    stream = io.BytesIO(data)
    try:
        message = format_of(cls, version).parse_stream(stream)
    except Malformed as error:
        # construct names the root of every path after what it is doing.
        path = error.path.removeprefix("(parsing)").removeprefix(".")
        return Refusal(path or None, error.offset)
    return message, stream.tell()


def compiled(cls: type[Any], version: int, data: bytes) -> tuple[Any, int] | Refusal:
    """Read by the generated parser."""
    try:
        return codec_of(cls, version).decode(data)
    except ProtocolError as error:
        return Refusal(error.field, error.offset)


def assert_alike(one: object, other: object) -> None:
    """Equal, or alike as they are written out, where NaN is NaN."""
    assert one == other or ("nan" in repr(one) and repr(one) == repr(other))


@by_class_and_version()
def test_compiled_code_does_what_the_format_does(cls: type[Any], versions: list[int]) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions, own=True), st.binary(max_size=3))
    def check(case: tuple[int, Any], behind: bytes) -> None:
        version, message = case
        written = encode(message, version)
        assert written == format_of(cls, version).build(message)
        assert compiled(cls, version, written + behind) == (message, len(written))
        assert interpreted(cls, version, written + behind) == (message, len(written))

    check()


@by_class_and_version()
def test_verdict_on_bad_bytes_is_the_formats_own(cls: type[Any], versions: list[int]) -> None:
    def bad_bytes(version: int) -> st.SearchStrategy[tuple[int, bytes]]:
        valid = st.just(encode(filled(cls, version), version))
        return st.tuples(st.just(version), mutated(valid) | st.binary(max_size=40))

    @examples_of(versions)
    @given(st.one_of([bad_bytes(version) for version in versions]))
    def check(case: tuple[int, bytes]) -> None:
        version, data = case
        assert_alike(compiled(cls, version, data), interpreted(cls, version, data))

    check()


def test_a_number_that_equals_nothing_is_read_alike() -> None:
    """Any eight bytes are a double, and those of some are no number: NaN."""
    written = encode(filled(DescribeClientQuotasResponse, 1), 1)
    value = struct.pack(">d", 1.5)
    assert value in written
    data = written.replace(value, struct.pack(">d", math.nan))
    read = compiled(DescribeClientQuotasResponse, 1, data)
    assert "nan" in repr(read)
    assert_alike(read, interpreted(DescribeClientQuotasResponse, 1, data))


@by_class()
def test_verdict_on_cut_off_bytes_is_the_formats_own(cls: type[Any], versions: list[int]) -> None:
    for version in versions:
        written = encode(filled(cls, version), version)
        for size in range(len(written)):
            refusal = compiled(cls, version, written[:size])
            assert isinstance(refusal, Refusal)
            assert refusal == interpreted(cls, version, written[:size])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x80", "a varint is cut off"),
        (b"\xff\xff\xff\xff", "a varint is cut off"),
        (b"\x80\x80\x80\x80\x80\x00", "a varint of more than five bytes"),
        (b"\xff\xff\xff\xff\x0f", "a string of 4294967294 bytes, 32767 at most"),
        (b"\x80\x00", "null or negative length"),
        (b"\x83\x00", "2 elements announced, 0 bytes left"),
    ],
)
def test_bad_compact_length_is_blamed_where_it_starts(data: bytes, reason: str) -> None:
    """The offset is that of its first byte, after a field of four bytes."""
    before = encode(HeartbeatRequest(group_id="g", generation_id=1, member_id=""), 4)[:6]
    with pytest.raises(ProtocolError, match=reason) as caught:
        decode(HeartbeatRequest, 4, before + data)
    assert (caught.value.field, caught.value.offset) == ("member_id", 6)
    assert interpreted(HeartbeatRequest, 4, before + data) == Refusal("member_id", 6)


# What encode refuses


@dataclass(frozen=True, slots=True)
class Case:
    """A message for a version, with a value in one place that `encode` may refuse."""

    version: int
    place: Place
    message: Any

    def __str__(self) -> str:
        return f"v{self.version} {self.place.path}"


Wanted = Callable[[Place, int], bool]


def cases(cls: type[Any], value: Any, wanted: Wanted) -> Iterator[Case]:
    """The value in each wanted place of each version that has the place."""
    for version in versions_of(cls):
        message = filled(cls, version)
        for place in places(cls, version):
            if version in place.spec.versions and wanted(place, version):
                yield Case(version, place, with_value(message, place, value))


def of_type(*types: WireType) -> Wanted:
    """Whether a place has one of these types."""
    return lambda place, _: place.type in types


def refusal_of(case: Case) -> str:
    """The field that `encode` names when it refuses the message."""
    try:
        encode(case.message, case.version)
    except EncodeError as error:
        return str(error).partition(": ")[0]
    return "(not refused)"


def blame_for(case: Case, path: str) -> str:
    """How an error names a field of the message."""
    return f"{declaration_of(type(case.message)).subject} v{case.version}, field {path}"


def assert_refused_by_name(found: Iterable[Case]) -> None:
    """Check that each message is refused by an error that names message, version and field."""
    listed = list(found)
    refused = {str(case): refusal_of(case) for case in listed}
    assert refused == {str(case): blame_for(case, case.place.path) for case in listed}


def assert_carried(found: Iterable[Case]) -> None:
    """Check that each message comes back as it was sent."""
    for case in found:
        written = encode(case.message, case.version)
        assert decode(type(case.message), case.version, written) == case.message, str(case)


def absent(cls: type[Any], *, ignorable: bool) -> Iterator[Case]:
    """Every field in every version that lacks it, with all kinds of values but the default."""
    for version in versions_of(cls):
        message = filled(cls, version)
        for place in places(cls, version):
            if version not in place.spec.versions and place.spec.ignorable is ignorable:
                for value in unlike_default(place.spec, version):
                    yield Case(version, place, with_value(message, place, value))


@every_class
def test_sample_of_every_field_is_carried(cls: type[Any]) -> None:
    """So in the cases below, it is the value that is refused."""
    for version in versions_of(cls):
        message = filled(cls, version)
        assert decode(cls, version, encode(message, version)) == message


@every_class
def test_field_that_the_version_lacks_is_refused(cls: type[Any]) -> None:
    """Its value would be lost; ignorable fields may be."""
    for case in absent(cls, ignorable=False):
        assert_refused_by_name([case])


@every_class
def test_ignorable_field_that_the_version_lacks_is_dropped(cls: type[Any]) -> None:
    for case in absent(cls, ignorable=True):
        expected = encode(filled(cls, case.version), case.version)
        assert encode(case.message, case.version) == expected, str(case)


def test_some_fields_of_each_kind_are_lacking_somewhere() -> None:
    """So the two tests above look at something."""
    classes = dict.fromkeys(cls for cls, _ in MESSAGES)
    assert sum(1 for cls in classes for _ in absent(cls, ignorable=False)) > 100
    assert sum(1 for cls in classes for _ in absent(cls, ignorable=True)) > 100


@every_class
def test_null_is_refused_where_it_may_not_stand(cls: type[Any]) -> None:
    assert_refused_by_name(cases(cls, None, lambda place, version: not place.is_nullable(version)))


@every_class
def test_null_is_carried_where_it_may_stand(cls: type[Any]) -> None:
    assert_carried(cases(cls, None, lambda place, version: place.is_nullable(version)))


@every_class
@pytest.mark.parametrize("text", ["x" * (TEXT_BYTES_MAX + 1), "é" * (TEXT_BYTES_MAX // 2 + 1)])
def test_text_that_is_too_long_is_refused(cls: type[Any], text: str) -> None:
    """Strings have at most 32,767 bytes of UTF-8, even if a compact length could say more."""
    assert_refused_by_name(cases(cls, text, of_type(Primitive.STRING)))


@every_class
def test_longest_text_is_carried(cls: type[Any]) -> None:
    text = "é" * (TEXT_BYTES_MAX // 2) + "x"
    assert_carried(cases(cls, text, of_type(Primitive.STRING)))


@every_class
def test_lone_surrogate_is_refused(cls: type[Any]) -> None:
    assert_refused_by_name(cases(cls, "a\ud800", of_type(Primitive.STRING)))


@every_class
def test_number_at_the_limits_is_carried(cls: type[Any]) -> None:
    for primitive, bits in INTEGER_BITS.items():
        assert_carried(cases(cls, 2 ** (bits - 1) - 1, of_type(primitive)))
        assert_carried(cases(cls, -(2 ** (bits - 1)), of_type(primitive)))


@every_class
def test_number_out_of_range_is_refused(cls: type[Any]) -> None:
    for primitive, bits in INTEGER_BITS.items():
        assert_refused_by_name(cases(cls, 2 ** (bits - 1), of_type(primitive)))
        assert_refused_by_name(cases(cls, -(2 ** (bits - 1)) - 1, of_type(primitive)))


# Values that a caller might pass by mistake, and that Python could make do with.
WRONG_VALUES: dict[Primitive, list[Any]] = {
    Primitive.BOOL: ["true", 2, 1.5, [], b"\1"],
    **{integer: ["1", 1.5, b"1", []] for integer in INTEGER_BITS},
    Primitive.UUID: ["00000000-0000-0000-0000-000000000001", 1, b"0123456789abcdef", []],
    Primitive.STRING: [b"text", 1, ["t"], ()],
    Primitive.BYTES: ["text", 1, [1, 2], ()],
    Primitive.RECORDS: ["text", 1, [1, 2], ()],
}
WRONG_ARRAYS: list[Any] = [1, "ab", b"ab", {"a": 1}, {1, 2}, iter(())]
WRONG_PARTS: list[Any] = [1, "ab", ("a", 1), {"name": "a"}]


def is_array(place: Place, _version: int) -> bool:
    """Whether a place is an array."""
    return isinstance(place.type, Array)


@every_class
def test_value_of_another_type_is_refused(cls: type[Any]) -> None:
    for primitive, values in WRONG_VALUES.items():
        for value in values:
            assert_refused_by_name(cases(cls, value, of_type(primitive)))


@every_class
def test_array_that_is_no_sequence_is_refused(cls: type[Any]) -> None:
    """A string is not an array of strings, and a set has no order."""
    for value in WRONG_ARRAYS:
        assert_refused_by_name(cases(cls, value, is_array))


@every_class
def test_element_that_is_something_else_is_refused(cls: type[Any]) -> None:
    for value in WRONG_PARTS:
        for case in cases(cls, (value,), is_array):
            if isinstance(case.place.type, Array) and isinstance(case.place.type.element, type):
                assert refusal_of(case) == blame_for(case, f"{case.place.path}[0]"), str(case)


@every_class
def test_part_that_is_something_else_is_refused(cls: type[Any]) -> None:
    for value in WRONG_PARTS:
        assert_refused_by_name(cases(cls, value, lambda place, _: isinstance(place.type, type)))


@every_class
def test_list_does_for_a_tuple(cls: type[Any]) -> None:
    for case in cases(cls, [], is_array):
        as_tuple = with_value(case.message, case.place, ())
        assert encode(case.message, case.version) == encode(as_tuple, case.version), str(case)
