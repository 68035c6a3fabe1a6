"""Requests by API: how many, how long they took, and with which error they ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final

from prometheus_client import Metric

from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import Array, declaration_of
from coterie_server.metrics.fast import LATENCY_BOUNDS_S, Distribution, counter, histogram

__all__ = ["RequestMetrics", "error_of"]


#: How many of the groups, topics or partitions in a response are looked at for an error: there may
#: be a million.
_LOOKED_AT: Final = 100


class _Api:
    """The requests of one API."""

    __slots__ = ("errors", "seconds", "title")

    def __init__(self, title: str) -> None:
        self.title = title
        self.errors: defaultdict[int, int] = defaultdict(int)
        self.seconds = Distribution(LATENCY_BOUNDS_S)


class RequestMetrics:
    """Counts requests when they are answered."""

    def __init__(self) -> None:
        self._apis = {int(key): _Api(key.title) for key in ApiKey}

    def answered(self, api_key: int, response: Any, seconds: float) -> None:  # noqa: ANN401  # any of the response dataclasses
        """Count a request that was answered so many seconds after it arrived."""
        api, read = self._apis[api_key], _READERS.get(type(response), error_of)
        api.errors[read(response) if read is not None else 0] += 1
        api.seconds.add(seconds)

    def collect(self) -> Iterator[Metric]:
        """The metrics of the APIs that were asked for at least once."""
        used = [api for api in self._apis.values() if api.errors]
        yield counter(
            "coterie_requests",
            "Requests answered, by the first error in the answer.",
            ("api", "error"),
            (
                ((api.title, _error_name(error)), count)
                for api in used
                for error, count in api.errors.items()
            ),
        )
        yield histogram(
            "coterie_request_seconds",
            "Time from a request's arrival to its answer, including the time it was parked.",
            ("api",),
            {(api.title,): api.seconds for api in used},
        )


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# -- the error in a response -----------------------------------------------------------------------

_Reader = Callable[[Any], int]

#: By class of response; None for a class that has no place for an error code.
_READERS: Final[dict[type[Any], _Reader | None]] = {}


def error_of(response: Any) -> int:  # noqa: ANN401  # any of the response dataclasses
    """The first error code in a response that is not 0; 0 if there is none.

    Some responses have one code, some have one for each group, topic or partition.  Of very many,
    only the first are looked at.
    """
    cls = type(response)
    try:
        read = _READERS[cls]
    except KeyError:
        read = _READERS[cls] = _reader(cls)
    return read(response) if read is not None else 0


def _reader(cls: type[Any]) -> _Reader | None:
    """A function that finds the code in objects of a class; None if they have no place for one."""
    try:
        fields = declaration_of(cls).fields
    except KeyError:  # not a message
        return None
    nested = [
        (field.name, reader)
        for field in fields
        if isinstance(field.type, Array)
        and isinstance(field.type.element, type)
        and (reader := _reader(field.type.element)) is not None
    ]
    has_own = any(field.name == "error_code" for field in fields)
    own: _Reader | None = attrgetter("error_code") if has_own else None
    return _combined(own, nested) if nested else own


def _combined(own: _Reader | None, nested: list[tuple[str, _Reader]]) -> _Reader:
    def read(response: Any) -> int:  # noqa: ANN401
        code = own(response) if own is not None else 0
        if code:
            return code
        for name, read_part in nested:
            some = (getattr(response, name) or ())[:_LOOKED_AT]
            if code := next(filter(None, map(read_part, some)), 0):
                return code
        return 0

    return read
