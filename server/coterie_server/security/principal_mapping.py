"""How the subject of a certificate becomes a principal's name, by `ssl.principal.mapping.rules`.

The rules are Kafka's: patterns are Java's as far as Python has the same, a pattern has to match the
whole subject, and each place in it that the pattern matches is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Self, final

__all__ = ["PrincipalMapping"]

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r"|)\s*(?:,|\Z)",
    re.DOTALL | re.ASCII,
)
#: An escaped character, a group by its number, or one by its name.
_REFERENCE: Final = re.compile(
    r"\\(?P<plain>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>\w+)\}", re.DOTALL | re.ASCII
)
_NAMED_GROUP: Final = re.compile(r"\(\?<(?![=!])")

_Rule = Callable[[str], str | None]
_Piece = str | int
"""Of a replacement: text, or a group by its number."""


@final
class PrincipalMapping:
    """The rules, of which the first that matches counts."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the rules; raises `ValueError` with a clause that says what is wrong with which."""
        rules: list[_Rule] = []
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise ValueError(
                    f"expected DEFAULT or RULE:PATTERN/REPLACEMENT/ with L, U or nothing behind it,"
                    f" got {text[at:].strip()!r}"
                )
            if found["default"]:
                rules.append(str)
            elif found["pattern"] is not None:
                rules.append(_rule(found["pattern"], found["replacement"], found["case"]))
            at = found.end()
        return cls(rules)

    def name_of(self, subject: str) -> str | None:
        """The name for a subject; None if no rule matches it."""
        return next((name for rule in self._rules if (name := rule(subject)) is not None), None)


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        # As in Java, words and digits are those of ASCII.
        matched = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} can't be used: {error}") from None
    pieces = _pieces(replacement, matched)

    def replaced(found: re.Match[str]) -> str:
        texts = (found[piece] if isinstance(piece, int) else piece for piece in pieces)
        return "".join(text or "" for text in texts)

    def apply(subject: str) -> str | None:
        if not matched.fullmatch(subject):
            return None
        name = matched.sub(replaced, subject)
        return name.lower() if case == "L" else name.upper() if case == "U" else name

    return apply


def _pieces(replacement: str, pattern: re.Pattern[str]) -> list[_Piece]:
    pieces: list[_Piece] = []
    at = 0
    for found in _REFERENCE.finditer(replacement):
        pieces.append(replacement[at : found.start()])
        at = found.end()
        if found["plain"] is not None:
            pieces.append(found["plain"])
        elif found["name"] is not None:
            if found["name"] not in pattern.groupindex:
                raise ValueError(f"{replacement!r} refers to a group that is not in its pattern")
            pieces.append(pattern.groupindex[found["name"]])
        else:
            pieces += _numbered(found["number"], pattern.groups, replacement)
    return [*pieces, replacement[at:]]


def _numbered(digits: str, groups: int, replacement: str) -> list[_Piece]:
    """What `$DIGITS` stands for: a group with as many of the digits as there are groups for.

    A group that is not there is taken for plain text by Kafka, unless there is none at all.
    """
    length = next((each for each in range(len(digits), 0, -1) if int(digits[:each]) <= groups), 0)
    if length:
        return [int(digits[:length]), digits[length:]]
    if not groups:
        raise ValueError(f"{replacement!r} refers to a group, and its pattern has none")
    return [f"${digits}"]
