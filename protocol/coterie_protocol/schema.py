"""The vocabulary of declarations: each message is declared once, for all its versions.

A message is a class whose fields say how they are written::

    @request(ApiKey.HEARTBEAT, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: str = field(STRING)
        generation_id: int = field(INT32)
        member_id: str = field(STRING)
        group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)

The decorators make it a frozen, slotted, keyword-only dataclass.  Version ranges are written as
Kafka's own message definitions write them ("0+", "3-5", "2", "none"), so that the two can be read
side by side.  Nothing here deals with bytes: `_compile` turns a declaration and a version into
code.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar, cast, dataclass_transform

from coterie_protocol._twin import frozen_dataclass, replaced
from coterie_protocol.api_keys import ApiKey

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "NIL_UUID",
    "OWN_TAGS_FROM",
    "RECORDS",
    "STRING",
    "UUID",
    "Array",
    "Declaration",
    "FieldSpec",
    "Kind",
    "Primitive",
    "VersionRange",
    "WireType",
    "declaration_of",
    "declarations",
    "field",
    "replaced",
    "request",
    "response",
    "struct",
]

T = TypeVar("T")

NIL_UUID: Final = uuid.UUID(int=0)

#: Tagged fields from this number on are Coterie's own.  Kafka numbers its own from 0 in each
#: message and has used a handful; other projects begin at round numbers, so this one is "Co" in
#: ASCII.  Readers skip tags that they do not know (KIP-482).
OWN_TAGS_FROM: Final = 0x436F

#: Versions are int16 on the wire, so this stands for "and all later ones".
_OPEN_END: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions from `first` to `last`, both included; empty if `last` < `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read "0-4", "3+", "2" or "none"."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _OPEN_END)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last if dash else first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Any:
        return iter(range(self.first, self.last + 1))

    def covers(self, other: VersionRange) -> bool:
        """Whether every version of `other` is in this range."""
        return other.last < other.first or (self.first <= other.first and other.last <= self.last)

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _OPEN_END:
            return f"{self.first}+"
        return f"{self.first}-{self.last}"


class Primitive(Enum):
    """A wire type without inner structure; the value is its name in Kafka's definitions."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    #: A batch of records; just bytes for Coterie, which has no records.
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Array:
    """A counted sequence of one wire type; a tuple in Python."""

    element: WireType


WireType = Primitive | Array | type[Any]

BOOL: Final = Primitive.BOOL
INT8: Final = Primitive.INT8
INT16: Final = Primitive.INT16
INT32: Final = Primitive.INT32
INT64: Final = Primitive.INT64
FLOAT64: Final = Primitive.FLOAT64
UUID: Final = Primitive.UUID
STRING: Final = Primitive.STRING
BYTES: Final = Primitive.BYTES
RECORDS: Final = Primitive.RECORDS


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """How one field is written."""

    type: WireType
    versions: VersionRange
    nullable: VersionRange
    #: The field's number among the tagged fields of flexible versions; None if it is not tagged.
    tag: int | None
    #: Versions without the field drop an ignorable one silently; any other must have its default
    #: value there.
    ignorable: bool
    #: Whether flexible versions write the field in its compact form, as nearly all fields are.
    compact: bool
    default: Any = dataclasses.MISSING
    name: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the field is Coterie's own, and not in Kafka's definition of the message."""
        return self.tag is not None and self.tag >= OWN_TAGS_FROM


class Kind(Enum):
    """The kinds of declared classes."""

    REQUEST = "request"
    RESPONSE = "response"
    #: A part of messages, or a structure of its own such as a group's embedded metadata.
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Declaration:
    """How a class was declared."""

    cls: type[Any]
    kind: Kind
    fields: tuple[FieldSpec, ...]
    versions: VersionRange
    flexible: VersionRange
    api: ApiKey | None = None
    #: Versions of a request after which some client writes meaningless bytes; they are ignored
    #: there, as Kafka ignores them everywhere.
    surplus: VersionRange = VersionRange(0, -1)

    @property
    def subject(self) -> str:
        """The name for messages to people: "JoinGroup request", or a structure's class name."""
        return self.cls.__name__ if self.api is None else f"{self.api.title} {self.kind.value}"


_declarations: dict[type[Any], Declaration] = {}


def declaration_of(cls: type[Any]) -> Declaration:
    """The declaration of a class that was made by `request`, `response` or `struct`."""
    return _declarations[cls]


def declarations() -> tuple[Declaration, ...]:
    """All declarations so far, in order."""
    return tuple(_declarations.values())


def field(
    wire_type: WireType,
    *,
    versions: str = "0+",
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
    secret: bool = False,
    default: Any = dataclasses.MISSING,
) -> Any:
    """Declare a field; one without a `default` is a required argument of the class.

    The value of a `secret` one is not in the `repr` of messages.
    """
    spec = FieldSpec(
        type=wire_type,
        versions=VersionRange.parse(versions),
        nullable=VersionRange.parse(nullable),
        tag=tag,
        ignorable=ignorable,
        compact=compact,
        default=default,
    )
    return dataclasses.field(default=default, repr=not secret, metadata={FieldSpec: spec})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def request(
    api: ApiKey, *, versions: str, flexible: str, surplus: str = "none"
) -> Callable[[type[T]], type[T]]:
    """Declare a request."""
    return _declare(Kind.REQUEST, versions, flexible, api, surplus)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def response(api: ApiKey, *, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare a response."""
    return _declare(Kind.RESPONSE, versions, flexible, api)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def struct(*, versions: str = "0+", flexible: str = "none") -> Callable[[type[T]], type[T]]:
    """Declare a part of messages, which has their versions, or a stand-alone structure."""
    return _declare(Kind.STRUCT, versions, flexible)


def _declare(
    kind: Kind,
    versions: str,
    flexible: str,
    api: ApiKey | None = None,
    surplus: str = "none",
) -> Callable[[type[T]], type[T]]:
    def decorate(plain: type[T]) -> type[T]:
        cls = frozen_dataclass(plain)
        specs = tuple(
            dataclasses.replace(cast(FieldSpec, f.metadata[FieldSpec]), name=f.name)
            for f in dataclasses.fields(cls)  # type: ignore[arg-type]  # a dataclass since above
        )
        declaration = Declaration(
            cls=cls,
            kind=kind,
            fields=specs,
            versions=VersionRange.parse(versions),
            flexible=VersionRange.parse(flexible),
            api=api,
            surplus=VersionRange.parse(surplus),
        )
        _check(declaration)
        _declarations[cls] = declaration
        return cls

    return decorate


def _check(declaration: Declaration) -> None:
    """Refuse contradictory declarations when their module is imported."""
    tags: set[int] = set()
    for spec in declaration.fields:
        name = f"{declaration.cls.__name__}.{spec.name}"
        has_default = spec.default is not dataclasses.MISSING
        if not (has_default or spec.versions.covers(declaration.versions)):
            # A part's versions are those of its message, which is not known here; "0+" covers any.
            raise TypeError(f"{name} is not in every version, so it needs a default")
        if spec.tag is not None:
            if spec.tag in tags or not has_default:
                raise TypeError(f"{name} needs a tag of its own and a default")
            tags.add(spec.tag)
        if has_default and spec.default is None and spec.nullable == VersionRange.parse("none"):
            raise TypeError(f"{name} has None as default but is nullable in no version")
