"""Which ACLs are meant: the options of `kafka-acls`, and what they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from coterie_cli.completion import complete_group, complete_topic
from coterie_cli.options import check_name, expand_options
from coterie_cli.output import MISUSED, fail

if TYPE_CHECKING:
    from coterie_client.admin import Acl, AclFilter

__all__ = ["Choice", "with_acls"]

_CLUSTER: Final = "kafka-cluster"
#: What a consumer needs of its topics and its groups.
_CONSUMER: Final = {"topic": ("Read", "Describe"), "group": ("Read",)}
_RESOURCES: Final = {
    "topic": "Topic",
    "group": "Group",
    "cluster": "Cluster",
    "transactional_id": "TransactionalId",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The options as they were given."""

    allow_principal: Sequence[str] = ()
    deny_principal: Sequence[str] = ()
    allow_host: Sequence[str] = ()
    deny_host: Sequence[str] = ()
    operation: Sequence[str] = ()
    topic: Sequence[str] = ()
    group: Sequence[str] = ()
    transactional_id: Sequence[str] = ()
    cluster: bool = False
    consumer: bool = False
    pattern: str = "Literal"

    def acls(self) -> list[Acl]:
        """The ACLs to add."""
        from coterie_client.admin import Acl

        if not (self.allow_principal or self.deny_principal):
            fail("Say whom: --allow-principal User:NAME, or --deny-principal User:NAME.", MISUSED)
        self._check_hosts()
        self._check_resources()
        return [
            Acl(principal, operation, resource, name, permission, host, self._pattern_of(resource))
            for permission, principal, host in self._who()
            for resource, name, operation in self._what("All")
        ]

    def filters(self) -> list[AclFilter]:
        """Which ACLs to remove: those about the resources and, if that is said, about whom."""
        from coterie_client.admin import AclFilter

        self._check_hosts()
        self._check_resources()
        who: list[tuple[Any, ...]] = list(self._who()) or [("Any", None, None)]
        return [
            AclFilter(principal, operation, resource, name, permission, host, pattern)
            for permission, principal, host in who
            for resource, name, operation in self._what("Any")
            for pattern in (self._pattern_of(resource),)
        ]

    def _check_hosts(self) -> None:
        for verb, hosts, principals in (
            ("allow", self.allow_host, self.allow_principal),
            ("deny", self.deny_host, self.deny_principal),
        ):
            if hosts and not principals:
                fail(f"Say whom, with --{verb}-host: --{verb}-principal User:NAME.", MISUSED)

    def _check_resources(self) -> None:
        if not any((self.topic, self.group, self.cluster, self.transactional_id)):
            fail(
                "Say of what: --topic NAME, --group NAME, --cluster or --transactional-id NAME.",
                MISUSED,
            )
        if self.consumer and not (self.topic and self.group):
            fail("--consumer needs --topic and --group.", MISUSED)
        if self.consumer and self.operation:
            fail("--consumer says the operations itself: leave out --operation.", MISUSED)

    def _who(self) -> Iterator[tuple[str, str, str]]:
        yield from product(("Allow",), self.allow_principal, self.allow_host or ("*",))
        yield from product(("Deny",), self.deny_principal, self.deny_host or ("*",))

    def _what(self, by_default: str) -> Iterator[tuple[str, str, str]]:
        """The resources, each with its operations."""
        names = {
            "topic": self.topic,
            "group": self.group,
            "cluster": (_CLUSTER,) if self.cluster else (),
            "transactional_id": self.transactional_id,
        }
        for kind, these in names.items():
            operations = self.operation or (by_default,)
            if self.consumer:
                operations = _CONSUMER.get(kind, ())
            for name, operation in product(these, operations):
                yield _RESOURCES[kind], name, operation

    def _pattern_of(self, resource: str) -> str:
        return "Literal" if resource == "Cluster" else self.pattern


def _make(**given: Any) -> Choice:  # noqa: ANN401  # whatever the options are
    return Choice(**{name: value for name, value in given.items() if value is not None})


def _names(help_text: str, metavar: str, **more: Any) -> Any:  # noqa: ANN401  # as typer has it
    return typer.Option(help=help_text, metavar=metavar, callback=_check_names, **more)


def _check_names(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        check_name(name)
    return names


def _options(  # noqa: PLR0913  # one for each option
    *,
    allow_principal: Annotated[
        list[str] | None, _names("Who may; * is everyone.", "User:NAME")
    ] = None,
    deny_principal: Annotated[list[str] | None, _names("Who may not.", "User:NAME")] = None,
    allow_host: Annotated[
        list[str] | None, _names("From where they may; anywhere if not given.", "ADDRESS")
    ] = None,
    deny_host: Annotated[list[str] | None, _names("From where they may not.", "ADDRESS")] = None,
    operation: Annotated[
        list[str] | None, _names("Such as Read or Describe; All if not given.", "OPERATION")
    ] = None,
    topic: Annotated[
        list[str] | None, _names("A topic.", "NAME", autocompletion=complete_topic)
    ] = None,
    group: Annotated[
        list[str] | None, _names("A group.", "NAME", autocompletion=complete_group)
    ] = None,
    transactional_id: Annotated[
        list[str] | None, _names("A producer's id, of Kafka's own brokers.", "NAME")
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="What a consumer of the topics needs in the groups."),
    ] = False,
    pattern: Annotated[
        str,
        typer.Option(
            "--resource-pattern-type",
            metavar="TYPE",
            help="literal: names as they are; prefixed: all that begin with them.",
        ),
    ] = "literal",
) -> None:
    """What `acls` expands to."""


#: Gives a command the options that make up its `acls`.
with_acls: Final = expand_options("acls", _make, _options)
