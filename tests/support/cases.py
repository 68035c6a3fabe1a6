"""Many small cases in one test, where a test each would take longer than all of them together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

__all__ = ["for_each"]

Test = Callable[..., None]


def for_each(name: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize` with one parameter, but in a single test.

    A failure names the value.  The test's fixtures are the same for all values, and further
    parameters stand above this or below it.
    """
    cases = list(values)

    def decorate(test: Test) -> Test:
        @wraps(test)
        def for_all(**others: Any) -> None:
            for value in cases:
                try:
                    test(**others, **{name: value})
                except BaseException as error:
                    error.add_note(f"The case: {name}={getattr(value, '__name__', value)!s}.")
                    raise

        signature = inspect.signature(test)
        others = [each for each in signature.parameters.values() if each.name != name]
        vars(for_all)["__signature__"] = signature.replace(parameters=others)
        return for_all

    return decorate
