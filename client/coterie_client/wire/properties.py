"""Java's property files, and the JAAS configurations that Kafka keeps in them.  Pure.

Errors name the key or the line, and never what is there: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from coterie_client.errors import ConfigurationError

__all__ = ["LoginModule", "parse_jaas", "parse_properties"]

#: A key ends at the first '=', ':' or white space that no backslash precedes.
_LINE: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
#: What Java trims: all controls and the space, but no other white space.
_TRIMMED: Final = "".join(map(chr, range(33)))
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read what `java.util.Properties` reads; values are stripped, as Kafka strips them."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigurationError(f"line {number} is neither a comment nor KEY=VALUE")
        try:
            key, value = map(_unescaped, match.groups())
        except ValueError:
            raise ConfigurationError(f"line {number} has a malformed \\u escape") from None
        found[key] = value.strip(_TRIMMED)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, those that go on after a backslash joined, by their first numbers."""
    pending: str | None = None
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = raw.lstrip(" \t\f")
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending, first = line, number
        else:
            pending += line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1] or None
        else:
            yield first, pending
            pending = None
    if pending is not None:
        yield first, pending


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text)


def _escaped_character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "u":
        if len(code) == 1:
            raise ValueError("not a Unicode escape")
        return chr(int(code[1:], 16))
    return _LETTERS.get(code, code)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A line of JAAS: a class, and the options for it."""

    name: str
    options: dict[str, str] = field(repr=False)

    @property
    def title(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


_JAAS: Final = re.compile(
    r"""
      \s+ | /\*.*?(?:\*/|\Z) | /[^\n\r]*
    | " (?P<double> (?:[^"\\\n\r]|\\.)* ) (?: " | (?=[\n\r]) | \Z )
    | ' (?P<single> (?:[^'\\\n\r]|\\.)* ) (?: ' | (?=[\n\r]) | \Z )
    | (?P<word> [^\s"'=;/]+ )
    | (?P<symbol> [=;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_JAAS_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_JAAS_LETTERS: Final = _LETTERS | {"a": "\a", "b": "\b", "v": "\v"}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_EXPECTED: Final = 'sasl.jaas.config must be MODULE required KEY="VALUE" ...;'


def parse_jaas(text: str) -> LoginModule:
    """Read the one login module of `sasl.jaas.config`."""
    tokens = list(_jaas_tokens(text))
    texts = [token for _, token in tokens]
    is_whole = len(texts) >= 3 and texts.count(";") >= 1 and tokens[-1] == ("symbol", ";")
    if not is_whole or texts[1].lower() not in _FLAGS:
        raise ConfigurationError(_EXPECTED)
    options = tokens[2:-1]
    if ("symbol", ";") in options:
        raise ConfigurationError("sasl.jaas.config must have one login module, and it has several")
    if len(options) % 3:
        raise ConfigurationError(_EXPECTED)
    found = {}
    for (kind, key), equals, (value_kind, value) in zip(*[iter(options)] * 3, strict=True):
        if kind == "symbol" or equals != ("symbol", "=") or value_kind == "symbol":
            raise ConfigurationError(_EXPECTED)
        found[key] = value
    return LoginModule(texts[0], found)


def _jaas_tokens(text: str) -> Iterator[tuple[str, str]]:
    pos = 0
    while pos < len(text):
        match = _JAAS.match(text, pos)
        if match is None:
            raise ConfigurationError(_EXPECTED)
        pos = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield kind, _JAAS_ESCAPE.sub(_jaas_character, match[kind])
        elif kind:
            yield kind, match[0]


def _jaas_character(match: re.Match[str]) -> str:
    code = match[1]
    is_octal = code.isdecimal() and code[0] < "8"
    return chr(int(code, 8)) if is_octal else _JAAS_LETTERS.get(code, code)
