"""Finds the ACLs that many filters match.

To compare each filter with each ACL would take minutes for ten thousand of both.  But filters can
be told apart by which fields they give, and for all that give the same ones, the ACLs are indexed
by these fields once.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from coterie_server.security.acls import (
    ANY_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie_server.turns import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from coterie_server.security.authorizer import Acls
    from coterie_server.turns import Making

__all__ = ["find_all"]

#: How many ACLs are put into an index, or looked up, in one turn of the event loop.
_AT_ONCE: Final = 500

#: Which fields of an ACL a filter gives.
_Fields = tuple[int, ...]
_NAME: Final = 1
_PATTERN: Final = 2
#: What stands for any value of the other fields, in their order.
_ANY: Final = (
    *(ResourceType.ANY, None, PatternType.ANY),
    *(None, None, Operation.ANY, Permission.ANY),
)


def find_all(
    acls: Acls, filters: Sequence[AclFilter], at_most: int
) -> Making[list[list[Acl]] | None]:
    """The ACLs that each filter matches; None if that makes more than `at_most`.

    The ACLs must stay as they are until it is made.
    """
    piece = Piece(_AT_ONCE)
    by_fields: dict[_Fields, list[int]] = {}
    for number, wanted in enumerate(filters):
        by_fields.setdefault(_fields_of(wanted), []).append(number)
        if piece.is_whole():
            yield
    lengths = {len(acl.name) for acl in acls if acl.pattern is PatternType.PREFIXED}
    found: list[list[Acl]] = [[] for _ in filters]
    total = 0
    for fields, numbers in by_fields.items():
        index = yield from _indexed(acls, fields, piece)
        for number in numbers:
            for key in _keys_of(filters[number], fields, lengths):
                matching = index.get(key, ())
                total += len(matching)
                if total > at_most:
                    return None
                found[number] += matching
                if piece.is_whole():
                    yield
    return found


def _values_of(wanted: AclFilter) -> tuple[Any, ...]:
    """What a filter gives of each field of an ACL, in their order."""
    return (
        *(wanted.resource_type, wanted.name, wanted.pattern),
        *(wanted.principal, wanted.host, wanted.operation, wanted.permission),
    )


def _matches_by_name(wanted: AclFilter) -> bool:
    """Whether it is for all patterns that match a resource of the name."""
    return wanted.pattern is PatternType.MATCH and wanted.name is not None


def _fields_of(wanted: AclFilter) -> _Fields:
    values = _values_of(wanted)
    given = (at for at, value in enumerate(values) if value != _ANY[at])
    if wanted.pattern is PatternType.MATCH and wanted.name is None:
        given = (at for at in given if at != _PATTERN)
    return tuple(given)


def _key_maker(fields: _Fields) -> Callable[[Sequence[Any]], object]:
    return itemgetter(*fields) if fields else lambda _: None


def _indexed(acls: Acls, fields: _Fields, piece: Piece) -> Making[dict[object, list[Acl]]]:
    key_of = _key_maker(fields)
    index: dict[object, list[Acl]] = {}
    for acl in acls:
        index.setdefault(key_of(acl), []).append(acl)
        if piece.is_whole():
            yield
    return index


def _keys_of(wanted: AclFilter, fields: _Fields, lengths: Collection[int]) -> Iterator[object]:
    """Under which keys of the index the ACLs are that a filter matches."""
    key_of, values = _key_maker(fields), list(_values_of(wanted))
    if not _matches_by_name(wanted):
        yield key_of(values)
        return
    name = str(wanted.name)
    patterns = [(name, PatternType.LITERAL), (ANY_NAME, PatternType.LITERAL)]
    patterns += [(name[:n], PatternType.PREFIXED) for n in lengths if n <= len(name)]
    for values[_NAME], values[_PATTERN] in dict.fromkeys(patterns):
        yield key_of(values)
