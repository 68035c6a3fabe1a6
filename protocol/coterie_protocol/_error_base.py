"""The bases of all error classes, and the registry that ties each class to its code."""

from __future__ import annotations

from typing import ClassVar

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import CoterieError

__all__ = [
    "InvalidMetadataError",
    "KafkaError",
    "RefreshRetriableError",
    "RetriableKafkaError",
    "class_for",
]

_class_by_code: dict[ErrorCode, type[KafkaError]] = {}


class KafkaError(CoterieError):
    """An error that has a code in Kafka's protocol.

    Every code but `NONE` has one subclass, declared with that code as its `code` argument; its
    docstring is the message that operators read. A subclass declared without `code` shares the
    code of its parent and takes no place in the registry. A class that has no code at all, such
    as this one, serves `except` clauses and cannot be instantiated.

    `detail` says what the error happened to, e.g. `"group g, member m"`.
    """

    code: ClassVar[ErrorCode]
    name: ClassVar[str]
    default_message: ClassVar[str]
    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        super().__init_subclass__()
        if code is None:
            return
        _register(cls, code)
        cls.code = code
        cls.name = code.name
        # Under `python -OO` there are no docstrings, and the name has to do.
        cls.default_message = cls.__doc__ or code.name
        # Tracebacks and pickles should name the module that users import the class from.
        cls.__module__ = "coterie_protocol.errors"

    def __init__(self, detail: str | None = None) -> None:
        if not hasattr(type(self), "code"):
            raise TypeError(f"{type(self).__name__} has no error code: raise one of its subclasses")
        # No placeholder in `args`: repr() shows how to make the error again.
        super().__init__(*(() if detail is None else (detail,)))
        self.detail = detail

    def __str__(self) -> str:
        line = f"{self.name} ({self.code.value}): {self.default_message}"
        return f"{line.removesuffix('.')}: {self.detail}" if self.detail else line


class RetriableKafkaError(KafkaError):
    """The same request may succeed later."""

    retriable = True


class RefreshRetriableError(RetriableKafkaError):
    """The request may succeed once the client has asked again which node is responsible."""


class InvalidMetadataError(RefreshRetriableError):
    """The request may succeed once the client has refreshed its metadata of the topics."""


def class_for(code: ErrorCode) -> type[KafkaError]:
    """Return the error class of `code`; `NONE` has none and raises `ValueError`."""
    if code is ErrorCode.NONE:
        raise ValueError("NONE means success and has no error class")
    return _class_by_code[code]


def _register(cls: type[KafkaError], code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        raise TypeError(f"{cls.__name__} cannot stand for NONE, which means success")
    taken_by = _class_by_code.setdefault(code, cls)
    if taken_by is not cls:
        raise TypeError(
            f"{cls.__name__} cannot stand for {code.name}: {taken_by.__name__} does already"
        )
