"""Who may do what: the ACLs, found by resource, and the decision that they make together.

As Kafka's StandardAuthorizer decides: an ACL that denies wins over any that allow, whatever their
patterns; without one that allows the answer is no, or, if no pattern matches the resource at all,
what `allow.everyone.if.no.acl.found` says.  Some operations imply the right to describe, but only
where they are allowed: to deny READ does not deny DESCRIBE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, final

from coterie_server.security.acls import (
    ANY_HOST,
    ANY_NAME,
    ANY_PRINCIPAL,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    canonical_address,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie_server.security.principal import Principal

__all__ = ["OPERATIONS", "AccessConfig", "Acls", "Authorizer"]

#: The operations that there are on a resource of each type, for the bit fields of answers.
OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}

#: What else allows an operation, besides itself and ALL.
_IMPLIED_BY: Final[dict[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}

#: How many decisions are remembered; each takes some hundred bytes.
_REMEMBERED_MAX: Final = 50_000
#: Decisions about resources with longer names are not remembered.
_REMEMBERED_NAME_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """The settings of the authorizer."""

    super_users: frozenset[str] = frozenset()
    #: What is the answer if no ACL's pattern matches a resource.
    allow_if_no_acl: bool = False


class _Entry(NamedTuple):
    """What an ACL says of the resources that its pattern matches."""

    host: str
    operation: Operation
    permission: Permission
    #: The host as the ACL has it: another ACL may have the same one in other words.
    written: str


#: The entries of a pattern, by principal.
_Entries = dict[str, set[_Entry]]


class Acls:
    """A set of ACLs, in which those that concern a resource are found at once.

    A resource is looked up by its name, by "*", and by as many of its prefixes as there are lengths
    of prefixes, however many ACLs there are.
    """

    __slots__ = ("_all", "_patterns", "_prefix_lengths")

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._all: dict[Acl, None] = {}
        self._patterns: dict[tuple[ResourceType, PatternType, str], _Entries] = {}
        #: How many patterns have prefixes of which length, by type of resource.
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}
        for acl in acls:
            self.add(acl)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._all

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acls) and self._all.keys() == other._all.keys()

    __hash__ = None  # type: ignore[assignment]  # they change

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._all)

    def find(self, wanted: AclFilter) -> list[Acl]:
        """The ACLs that match a filter."""
        return [acl for acl in self._all if wanted.matches(acl)]

    def add(self, acl: Acl) -> None:
        """Add an ACL, which may be there already."""
        if acl in self._all:
            return
        self._all[acl] = None
        key = (acl.resource_type, acl.pattern, acl.name)
        entries = self._patterns.get(key)
        if entries is None:
            entries = self._patterns[key] = {}
            if acl.pattern is PatternType.PREFIXED:
                lengths = self._prefix_lengths.setdefault(acl.resource_type, {})
                lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1
        entries.setdefault(acl.principal, set()).add(_entry_of(acl))

    def discard(self, acl: Acl) -> None:
        """Take an ACL away, which may be gone already."""
        if acl not in self._all:
            return
        del self._all[acl]
        key = (acl.resource_type, acl.pattern, acl.name)
        entries = self._patterns[key]
        entries[acl.principal].remove(_entry_of(acl))
        if not entries[acl.principal]:
            del entries[acl.principal]
        if not entries:
            del self._patterns[key]
            if acl.pattern is PatternType.PREFIXED:
                self._forget_length(acl)

    def _forget_length(self, acl: Acl) -> None:
        lengths = self._prefix_lengths[acl.resource_type]
        lengths[len(acl.name)] -= 1
        if not lengths[len(acl.name)]:
            del lengths[len(acl.name)]

    def entries_about(self, kind: ResourceType, name: str) -> Iterator[_Entries]:
        """The entries of each pattern that matches a resource."""
        patterns = self._patterns
        for literal in (name,) if name == ANY_NAME else (name, ANY_NAME):
            if (found := patterns.get((kind, PatternType.LITERAL, literal))) is not None:
                yield found
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                found = patterns.get((kind, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found


def _entry_of(acl: Acl) -> _Entry:
    host = canonical_address(acl.host) or acl.host
    return _Entry(host, acl.operation, acl.permission, acl.host)


@final
class Authorizer:
    """Decides by a set of ACLs, and remembers what it has decided until they change."""

    __slots__ = ("_decided", "acls", "config")

    def __init__(self, config: AccessConfig) -> None:
        self.config = config
        self.acls = Acls()
        self._decided: dict[tuple[Principal, str, Operation, ResourceType, str], bool] = {}

    def go_by(self, acls: Acls) -> None:
        """Go by these ACLs from now on; `add` and `discard` change them."""
        self.acls = acls
        self._decided.clear()

    def add(self, acl: Acl) -> None:
        """Go by one more ACL."""
        self.acls.add(acl)
        self._decided.clear()

    def discard(self, acl: Acl) -> None:
        """Go by an ACL no longer."""
        self.acls.discard(acl)
        self._decided.clear()

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether a principal may do something from a host, as Kafka prints hosts."""
        key = (principal, host, operation, kind, name)
        decided = self._decided.get(key)
        if decided is None:
            decided = self._decide(str(principal), host, operation, kind, name)
            decided = decided or principal.is_node
            if len(name) <= _REMEMBERED_NAME_MAX:
                if len(self._decided) >= _REMEMBERED_MAX:
                    self._decided.clear()
                self._decided[key] = decided
        return decided

    @property
    def remembered(self) -> int:
        """How many decisions are remembered."""
        return len(self._decided)

    def _decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if principal in self.config.super_users:
            return True
        hosts = (ANY_HOST, canonical_address(host.partition("%")[0]) or host)
        implied_by = _IMPLIED_BY.get(operation, frozenset())
        is_known = is_allowed = False
        for by_principal in self.acls.entries_about(kind, name):
            is_known = True
            for who in (principal, ANY_PRINCIPAL):
                for entry in by_principal.get(who, ()):
                    if entry.host not in hosts:
                        continue
                    is_meant = entry.operation in (operation, Operation.ALL)
                    if entry.permission is Permission.DENY:
                        if is_meant:
                            return False
                    elif is_meant or entry.operation in implied_by:
                        is_allowed = True
        return is_allowed if is_known else self.config.allow_if_no_acl

    def operations(
        self, principal: Principal, host: str, kind: ResourceType, name: str = CLUSTER_NAME
    ) -> int:
        """What a principal may do with a resource, as a bit for each operation's number."""
        return sum(
            1 << operation
            for operation in OPERATIONS[kind]
            if self.allows(principal, host, operation, kind, name)
        )
