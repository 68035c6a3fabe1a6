"""One setting: its key, its allowed values, and how a value is read from text."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, TypeVar

from coterie_protocol.exceptions import CoterieError
from coterie_server.security.java_text import trimmed

__all__ = [
    "HIDDEN",
    "INT32_MAX",
    "INT64_MAX",
    "VARIABLE_PREFIX",
    "Setting",
    "SettingsError",
    "Value",
    "declare",
    "declare_number",
]

Value = int | bool | str

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

#: What is shown in place of a secret.
HIDDEN: Final = "(hidden)"

T = TypeVar("T", bound=Value)

VARIABLE_PREFIX = "COTERIE_"

# int() itself would also take "1_000", other scripts' digits and numbers of any length; nineteen
# digits hold every 64-bit number, and the bounds say the rest.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


class SettingsError(CoterieError):
    """A setting is unknown or has an invalid value; the text is a sentence for its author."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of one setting.

    `exception` is a number outside the bounds that has a meaning of its own, which `meaning` says.
    `from_kafka` says whether Kafka's brokers have a setting of that name.  The value of a `secret`
    one is never shown.  A listener may have a value of its own for one that is `per_listener`, and
    in it those of SASL's `mechanisms` that are given.
    """

    key: str
    default: Value
    help: str
    _: KW_ONLY
    choices: tuple[str, ...] = ()
    pattern: str = ""
    #: What texts that match the pattern are, in words.
    form: str = ""
    unit: str = ""
    at_least: int = 0
    at_most: int = 0
    exception: int | None = None
    meaning: str = ""
    from_kafka: bool = False
    secret: bool = False
    per_listener: bool = False
    mechanisms: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """The attribute of `Settings` that holds the value."""
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return VARIABLE_PREFIX + self.attribute.upper()

    @property
    def expected(self) -> str:
        """Which values are allowed, as the end of a sentence that begins with "expected"."""
        if isinstance(self.default, bool):
            return "true or false"
        if self.choices:
            return " or ".join(filter(None, (", ".join(self.choices[:-1]), self.choices[-1])))
        if isinstance(self.default, str):
            return self.form or f"text that matches {self.pattern}"
        unit = f" of {self.unit}" if self.unit else ""
        bounds = f"a whole number{unit} from {self.at_least} to {self.at_most}"
        return (
            bounds if self.exception is None else f"{bounds}, or {self.exception}: {self.meaning}"
        )

    def read(self, raw: object, source: str) -> Value:
        """Return the value that a source gave, as text or typed, or raise `SettingsError`."""
        value = self._from_text(trimmed(raw)) if isinstance(raw, str) else raw
        return self.check(value, raw, source)

    def check(self, value: object, raw: object, source: str = "") -> Value:
        """Return the value if it is allowed, or raise `SettingsError`.

        The error shows `raw`, which is what was written, and the source unless that is empty.
        """
        if type(value) is type(self.default) and self._allows(value):
            return value
        where = f" ({source})" if source else ""
        shown = HIDDEN if self.secret else repr(raw)
        raise SettingsError(f"{self.key} = {shown}{where}: expected {self.expected}")

    def _from_text(self, text: str) -> Value | None:
        if isinstance(self.default, bool):
            return {"true": True, "false": False}.get(text.lower())
        if isinstance(self.default, int):
            return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        return text.lower() if self.choices else text

    def _allows(self, value: Value) -> bool:
        if isinstance(value, bool):
            return True
        if isinstance(value, int):
            return self.at_least <= value <= self.at_most or value == self.exception
        if self.choices:
            return value in self.choices
        return re.fullmatch(self.pattern, value) is not None


def declare(default: T, help: str, *, kafka: bool = False, **rest: Any) -> T:  # noqa: A002, ANN401  # the words of Setting
    """Declare a setting, as a field of a dataclass."""
    # The type is the value's, not the field's, as it is with dataclasses.field itself.
    metadata = {"help": help, "from_kafka": kafka, **rest}
    declared: T = field(default=default, metadata=metadata, repr=not rest.get("secret"))
    return declared


def declare_number(
    default: int,
    help: str,  # noqa: A002  # the word of Setting
    *,
    unit: str = "",
    at_least: int = 1,
    at_most: int = INT32_MAX,
    exception: tuple[int, str] | None = None,
    kafka: bool = False,
    **rest: Any,  # noqa: ANN401  # the words of Setting
) -> int:
    """Declare a setting that is a whole number."""
    special = {} if exception is None else {"exception": exception[0], "meaning": exception[1]}
    bounds = {"at_least": at_least, "at_most": at_most}
    return declare(default, help, kafka=kafka, unit=unit, **bounds, **special, **rest)
