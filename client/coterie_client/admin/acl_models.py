"""ACLs, and filters that choose among them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self, TypeVar

from coterie_client import checks
from coterie_client.errors import ConfigurationError

__all__ = ["ANY_HOST", "Acl", "AclFilter", "Operation", "Pattern", "Permission", "Resource"]

#: The host of an ACL that holds wherever a client connects from.
ANY_HOST: Final = "*"
#: The only resource of its kind.
_CLUSTER: Final = "kafka-cluster"


class _Word(IntEnum):
    """A word of ACLs, by Kafka's number of it."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # Newer servers have words that are not known here.
        return cls["UNKNOWN"] if isinstance(value, int) else None

    @property
    def title(self) -> str:
        """The word as Kafka's tools write it, such as `DescribeConfigs`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    def __str__(self) -> str:
        return self.title


class Resource(_Word):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(_Word):
    """How an ACL names what it protects."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    MATCH = 2  # in filters only: whatever concerns a resource of that name
    LITERAL = 3
    PREFIXED = 4


class Operation(_Word):
    """What an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Word):
    """Whether an ACL allows or denies; what is denied stays so, whatever else is allowed."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    DENY = 2
    ALLOW = 3


W = TypeVar("W", bound=_Word)

_ONLY_IN_FILTERS: Final = ("ANY", "MATCH", "UNKNOWN")


def _word(name: str, kind: type[W], value: object, *, in_filter: bool) -> W:
    """A word that was given as such or by its name, whose case does not count."""
    allowed = [w for w in kind if in_filter or w.name not in _ONLY_IN_FILTERS]
    if isinstance(value, str):
        wanted = value.replace("_", "").lower()
        value = next((word for word in allowed if word.title.lower() == wanted), value)
    if value not in allowed or not isinstance(value, kind):
        checks.must_be(name, f"one of {', '.join(word.title for word in allowed)}", value)
    return value


def _words(of: Acl | AclFilter, *, in_filter: bool) -> None:
    kinds = {
        "resource": Resource,
        "pattern": Pattern,
        "operation": Operation,
        "permission": Permission,
    }
    for name, kind in kinds.items():
        found = _word(name, kind, getattr(of, name), in_filter=in_filter)
        object.__setattr__(of, name, found)


@dataclass(frozen=True, slots=True)
class Acl:
    """Allows a principal an operation, or denies it.

    ::

        Acl("User:ann", "Read", "Group", "billing")
        Acl("User:bob", "All", "Topic", "orders-", pattern="Prefixed", permission="Deny")
    """

    #: Such as `User:ann`; `User:*` is everyone.
    principal: str
    operation: Operation | str
    resource: Resource | str
    #: The resource's name; `*` is every one of its kind. The cluster is `kafka-cluster`.
    name: str = _CLUSTER
    permission: Permission | str = Permission.ALLOW
    host: str = ANY_HOST
    pattern: Pattern | str = Pattern.LITERAL

    def __post_init__(self) -> None:
        _words(self, in_filter=False)
        for name in ("principal", "name", "host"):
            checks.text(name, getattr(self, name))
        kind, colon, user = self.principal.partition(":")
        if not (kind and colon and user):
            checks.must_be("principal", "a kind and a name, such as User:ann", self.principal)
        if self.resource is Resource.CLUSTER and self.name != _CLUSTER:
            checks.must_be("name", f"{_CLUSTER!r} for the cluster", self.name)
        if self.resource is not Resource.CLUSTER and self.name == _CLUSTER:
            checks.must_be("name", f"that of a {self.resource}", self.name)

    def __str__(self) -> str:
        verb = "may" if self.permission is Permission.ALLOW else "may not"
        like = "" if self.pattern is Pattern.LITERAL else f" {str(self.pattern).lower()}"
        where = "" if self.host == ANY_HOST else f" from {self.host}"
        return f"{self.principal} {verb} {self.operation}{like} {self.resource} {self.name}{where}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Chooses ACLs; what is left out matches any.

    `Pattern.MATCH` with a name matches all that concern a resource of that name: literal patterns,
    prefixes of the name, and `*`.
    """

    principal: str | None = None
    operation: Operation | str = Operation.ANY
    resource: Resource | str = Resource.ANY
    name: str | None = None
    permission: Permission | str = Permission.ANY
    host: str | None = None
    pattern: Pattern | str = Pattern.ANY

    def __post_init__(self) -> None:
        _words(self, in_filter=True)
        for name in ("principal", "name", "host"):
            value = getattr(self, name)
            if value is not None:
                checks.text(name, value)
        for name in ("operation", "resource", "permission", "pattern"):
            if getattr(self, name) == 0:
                raise ConfigurationError(f"{name} must be a word that Kafka has, got Unknown")

    @classmethod
    def of(cls, acl: Acl) -> Self:
        """The filter that matches one ACL and no other."""
        return cls(
            acl.principal,
            acl.operation,
            acl.resource,
            acl.name,
            acl.permission,
            acl.host,
            acl.pattern,
        )
