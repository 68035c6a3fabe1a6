"""What becomes of a batch: a value or an error for each item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from coterie_client.errors import BatchFailedError
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import class_for
from coterie_protocol.exceptions import CoterieError

__all__ = ["Result", "Results", "error_of"]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Result(Generic[V]):
    """What became of one item: a value, or the error instead."""

    value: V | None = None
    error: CoterieError | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return self.error is None

    def get(self) -> V:
        """The value; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return cast(V, self.value)


class Results(dict[K, Result[V]]):
    """What became of each item of a batch, in the order in which they were given."""

    @property
    def errors(self) -> dict[K, CoterieError]:
        """The errors of those that failed."""
        return {item: result.error for item, result in self.items() if result.error is not None}

    def get_all(self) -> dict[K, V]:
        """The values; if any item failed, raises `BatchFailedError` instead.

        Who asked for one item gets that item's own error.
        """
        errors = self.errors
        if len(self) == 1:
            for error in errors.values():
                raise error
        if errors:
            raise BatchFailedError(errors, len(self))
        return {item: result.get() for item, result in self.items()}


def error_of(code: int, subject: str, sentence: str | None = None) -> CoterieError | None:
    """The exception for an error code of an answer; None if it says that all went well."""
    if code == ErrorCode.NONE:
        return None
    detail = f"{subject}: {sentence}" if sentence else subject
    error: Any = class_for(ErrorCode.of(code))(detail)
    return cast(CoterieError, error)
