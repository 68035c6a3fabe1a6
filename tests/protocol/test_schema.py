"""Declarations: what they become, and which of them make no sense."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie_protocol._compile import format_of
from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    INT16,
    INT32,
    STRING,
    Kind,
    VersionRange,
    declaration_of,
    declarations,
    field,
    request,
    struct,
)
from tests.support.strategies import MESSAGES

NONE = VersionRange.parse("none")


@struct(versions="0-3", flexible="2+")
class Sample:
    """A structure to look at."""

    name: str = field(STRING)
    size: int = field(INT32, versions="1+", default=-1)
    label: str | None = field(STRING, versions="2+", nullable="3+", tag=5, default="")


# Version ranges


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("0-4", [0, 1, 4], [-1, 5]),
        ("3+", [3, 4, 32767], [2]),
        ("2", [2], [1, 3]),
        ("none", [], [-1, 0, 1]),
    ],
)
def test_range_contains_what_its_text_says(
    text: str, inside: list[int], outside: list[int]
) -> None:
    versions = VersionRange.parse(text)
    assert [version for version in inside + outside if version in versions] == inside


@pytest.mark.parametrize("text", ["0-4", "3+", "none"])
def test_range_prints_as_it_is_written(text: str) -> None:
    assert str(VersionRange.parse(text)) == text


def test_range_iterates_over_its_versions() -> None:
    assert list(VersionRange.parse("2-5")) == [2, 3, 4, 5]
    assert list(NONE) == []


@pytest.mark.parametrize(
    ("outer", "inner", "covered"),
    [
        ("0-4", "1-4", True),
        ("0-4", "0-5", False),
        ("1-4", "0-4", False),
        ("0+", "3+", True),
        ("0-4", "3+", False),
        ("3", "none", True),
        ("none", "3", False),
    ],
)
def test_range_covers_ranges_inside_it(outer: str, inner: str, *, covered: bool) -> None:
    assert VersionRange.parse(outer).covers(VersionRange.parse(inner)) is covered


@pytest.mark.parametrize("text", ["", "+", "a-b", "1-", "-", "1-2-3", "all"])
def test_range_refuses_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        VersionRange.parse(text)


# What a declaration becomes


def test_declared_class_is_frozen() -> None:
    sample = Sample(name="n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample.name = "m"  # type: ignore[misc]


def test_declared_class_has_slots() -> None:
    assert not hasattr(Sample(name="n"), "__dict__")


def test_declared_class_takes_keywords_only() -> None:
    """So a new field in the middle breaks no caller."""
    make: Callable[..., Sample] = Sample
    with pytest.raises(TypeError, match="positional"):
        make("n")


def test_field_without_default_must_be_given() -> None:
    make: Callable[..., Sample] = Sample
    with pytest.raises(TypeError, match="name"):
        make(size=1)


def test_declaration_tells_what_was_written() -> None:
    declaration = declaration_of(Sample)
    _, size, label = declaration.fields
    assert (declaration.kind, declaration.api, declaration.subject) == (Kind.STRUCT, None, "Sample")
    assert (str(declaration.versions), str(declaration.flexible)) == ("0-3", "2+")
    assert (size.name, size.type, str(size.versions), size.default) == ("size", INT32, "1+", -1)
    assert (label.tag, str(label.nullable), label.ignorable) == (5, "3+", False)


def test_declarations_lists_every_declared_class() -> None:
    declared = {declaration.cls for declaration in declarations()}
    assert declared > {Sample, *(cls for cls, _ in MESSAGES)}


def test_messages_to_test_do_not_depend_on_what_was_imported_before() -> None:
    script = (
        "import coterie_server.group, coterie_server.topics\n"
        "from tests.support.strategies import MESSAGES\n"
        "print(*(f'{cls.__qualname__} {version}' for cls, version in MESSAGES), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        f"{cls.__qualname__} {version}" for cls, version in MESSAGES
    ]


def test_declaration_of_an_ordinary_class_is_refused() -> None:
    with pytest.raises(KeyError):
        declaration_of(int)


def test_subject_of_a_message_is_its_api_and_direction() -> None:
    @request(ApiKey.OFFSET_FETCH, versions="0", flexible="none")
    class Anything:
        """Not registered for its API: that registry is made when `codec` is imported."""

    assert declaration_of(Anything).subject == "OffsetFetch request"


# What is refused


def test_field_that_comes_later_needs_a_default() -> None:
    """In version 0 it has neither bytes nor a value."""
    with pytest.raises(TypeError, match=r"Late\.size is not in every version"):

        @struct(versions="0-3")
        class Late:
            size: int = field(INT32, versions="1+")


def test_field_that_ends_early_needs_a_default() -> None:
    with pytest.raises(TypeError, match=r"Early\.size is not in every version"):

        @struct(versions="0-3")
        class Early:
            size: int = field(INT32, versions="0-2")


def test_part_of_a_message_is_in_all_versions() -> None:
    """A part does not know the versions of its message, so only "0+" covers all of them."""
    with pytest.raises(TypeError, match=r"Part\.size is not in every version"):

        @struct()
        class Part:
            size: int = field(INT32, versions="0-99")


def test_one_tag_for_two_fields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Twice\.second needs a tag of its own"):

        @struct(versions="0", flexible="0+")
        class Twice:
            first: int = field(INT16, tag=1, default=0)
            second: int = field(INT16, tag=1, default=0)


def test_tagged_field_needs_a_default() -> None:
    """A tagged field may always be missing."""
    with pytest.raises(TypeError, match=r"Tagged\.size needs a tag of its own and a default"):

        @struct(versions="0", flexible="0+")
        class Tagged:
            size: int = field(INT32, tag=0)


def test_tagged_field_in_an_inflexible_version_is_refused() -> None:
    @struct(versions="0-1", flexible="1+")
    class TooEarly:
        size: int = field(INT32, tag=0, default=0)

    assert 0 in (format_of(TooEarly, 1).tagged or {})
    with pytest.raises(TypeError, match=r"TooEarly\.size is tagged, and version 0 is not flexible"):
        format_of(TooEarly, 0)


def test_null_as_default_of_a_field_that_is_never_null_is_refused() -> None:
    """It could not be written."""
    with pytest.raises(TypeError, match=r"Never\.name has None as default but is nullable in no"):

        @struct(versions="0")
        class Never:
            name: str | None = field(STRING, default=None)


def test_format_of_a_version_that_is_not_declared_is_refused() -> None:
    with pytest.raises(KeyError, match="Sample has no version 4"):
        format_of(Sample, 4)
