"""The subject of a certificate, as Java writes it and so as Kafka's ACLs have it.

Java follows RFC 2253: the last part comes first, a few kinds of part have names, and all others are
given by number with their bytes in hexadecimal digits.  Where the RFC leaves a choice, Java's is
taken here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["subject_of"]

#: The kinds of part that have a name in RFC 2253.
_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
#: The tags of ASN.1's texts that Java shows as such: UTF8, Printable, T61, IA5, General and BMP.
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_VERSION: Final = 0xA0
#: Serial number, algorithm, issuer and validity stand before the subject.
_BEFORE_SUBJECT: Final = 4
_SPECIAL: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


class _Value(NamedTuple):
    """A value in DER: its tag, what is in it, and both with the length between them."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER; raises `ValueError` if it is none."""
    try:
        whole = next(_values(certificate))
        fields = list(_values(next(_values(whole.content)).content))
        first = 1 if fields[0].tag == _VERSION else 0
        subject = fields[first + _BEFORE_SUBJECT]
        parts = [_part(part.content) for part in _values(subject.content)]
    except (IndexError, StopIteration) as error:
        raise ValueError("not a certificate in DER") from error
    return ",".join(reversed(parts))


def _values(data: bytes) -> Iterator[_Value]:
    """The values that stand one after the other."""
    at = 0
    while at < len(data):
        size, start = data[at + 1], at + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[at + 2 : start])
        end = start + size
        if end > len(data):
            raise IndexError("a value is cut short")
        yield _Value(data[at], data[start:end], data[at:end])
        at = end


def _part(data: bytes) -> str:
    """One part, which may have several attributes."""
    return "+".join(_attribute(*_values(attribute.content)) for attribute in _values(data))


def _attribute(kind: _Value, value: _Value) -> str:
    number = _object_id(kind.content)
    name = _NAMES.get(number)
    if name is None or value.tag not in _TEXTS:
        return f"{name or number}=#{value.whole.hex()}"
    # Java reads all kinds of text as UTF-8, whatever they are.
    return f"{name}={_escaped(value.content.decode(errors='replace'))}"


def _object_id(data: bytes) -> str:
    numbers, number = [], 0
    for each in data:
        number = number << 7 | each & 0x7F
        if not each & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    escaped = "".join(
        f"\\{each}" if each in _SPECIAL else "\\00" if each == "\0" else each for each in text
    )
    inner = escaped.strip(_BLANKS)
    if not inner:
        return "".join(f"\\{each}" for each in escaped)
    lead, trail = escaped.split(inner, 1) if inner != escaped else ("", "")
    return "".join(f"\\{each}" for each in lead) + inner + "".join(f"\\{each}" for each in trail)
