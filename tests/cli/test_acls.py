"""`coterie acls` and `coterie users`: what is asked for, what is printed, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from coterie_cli import connection
from coterie_cli.commands import users as users_command
from coterie_cli.main import app
from coterie_client.admin import Acl, AclFilter, Results, UserDescription
from coterie_client.admin.models import Result
from coterie_client.wire import SaslMechanism
from coterie_protocol.errors import ClusterAuthorizationFailedError, SecurityDisabledError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
READ = Acl("User:ann", "Read", "Group", "billing")
DENY = Acl("User:bob", "All", "Topic", "secret-", "Deny", "10.0.0.1", "Prefixed")
PASSWORD = "hunter2 is\tnot a good one"  # noqa: S105  # of no account


PREFIXED = "--resource-pattern-type prefixed"
HOSTS = "--allow-principal User:a --allow-host 1.1.1.1 --allow-host 2.2.2.2"


class FakeAcls:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.there: tuple[Acl, ...] = (READ, DENY)
        self.asked: list[Any] = []

    async def list(self, which: AclFilter) -> tuple[Acl, ...]:
        """Tell of all."""
        self.asked.append(which)
        return self.there

    async def create(self, *acls: Acl) -> None:
        """Add some."""
        self.asked.extend(acls)

    async def delete_many(self, which: Iterable[AclFilter]) -> Results[Any, Any]:
        """Delete all."""
        self.asked.extend(which)
        return Results({each: Result(self.there) for each in which})


class FakeUsers:
    """Knows one user, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def list(self) -> tuple[UserDescription, ...]:
        """Tell of the one."""
        return (UserDescription("ann", {SaslMechanism.SCRAM_SHA_256: 4096}),)

    async def set_password(self, name: str, password: str, **options: Any) -> None:
        """Set a password."""
        self.asked.append((name, password, options))

    async def delete(self, name: str, **options: Any) -> None:
        """Delete a user."""
        self.asked.append((name, options))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what commands use in place of an administrator's client."""
    fake = SimpleNamespace(acls=FakeAcls(), users=FakeUsers())

    def run(_target: object, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            return await work(fake)

        return asyncio.run(ask())

    monkeypatch.setattr(connection, "run_admin", run)
    return fake


def run(*words: str, code: int = 0, stdin: str | None = None) -> str:
    """What a command says: on the standard output, or if it fails, on the standard error."""
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


# acls list


def test_acls_are_listed(admin: Any) -> None:
    assert run("acls", "list").splitlines() == [
        "RESOURCE  NAME     PATTERN   PRINCIPAL  HOST      PERMISSION  OPERATION",
        "Group     billing  Literal   User:ann   *         Allow       Read",
        "Topic     secret-  Prefixed  User:bob   10.0.0.1  Deny        All",
    ]
    assert admin.acls.asked == [AclFilter()]


def test_acls_are_listed_as_json(admin: Any) -> None:
    del admin
    assert json.loads(run("acls", "list", "--json"))[1] == {
        "principal": "User:bob",
        "host": "10.0.0.1",
        "permission": "Deny",
        "operation": "All",
        "resource": "Topic",
        "name": "secret-",
        "pattern": "Prefixed",
    }


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("--principal User:ann", [AclFilter("User:ann")]),
        (
            "--topic t --group g --cluster",
            [
                AclFilter(resource="Topic", name="t"),
                AclFilter(resource="Group", name="g"),
                AclFilter(resource="Cluster", name="kafka-cluster"),
            ],
        ),
        (
            "--topic t --resource-pattern-type match",
            [AclFilter(resource="Topic", name="t", pattern="Match")],
        ),
    ],
)
def test_acls_are_listed_by_what_they_are_about(
    words: str, asked: list[AclFilter], admin: Any
) -> None:
    run("acls", "list", *words.split())
    assert admin.acls.asked == asked


def test_no_acls_is_a_sentence(admin: Any) -> None:
    admin.acls.there = ()
    assert run("acls", "list") == "There are no ACLs.\n"
    assert run("acls", "list", "--topic", "t") == "There are no such ACLs.\n"


# acls add


@pytest.mark.parametrize(
    ("words", "added"),
    [
        ("--allow-principal User:ann --operation Read --group billing", [READ]),
        (
            "--deny-principal User:bob --deny-host 10.0.0.1 --topic secret- " + PREFIXED,
            [DENY],
        ),
        (
            "--allow-principal User:a --allow-principal User:b --operation create --cluster",
            [Acl("User:a", "Create", "Cluster"), Acl("User:b", "Create", "Cluster")],
        ),
        (
            "--allow-principal User:a --consumer --topic t --group g",
            [
                Acl("User:a", "Read", "Topic", "t"),
                Acl("User:a", "Describe", "Topic", "t"),
                Acl("User:a", "Read", "Group", "g"),
            ],
        ),
        (
            HOSTS + " --operation Describe --transactional-id x",
            [
                Acl("User:a", "Describe", "TransactionalId", "x", host="1.1.1.1"),
                Acl("User:a", "Describe", "TransactionalId", "x", host="2.2.2.2"),
            ],
        ),
    ],
)
def test_acls_are_added(words: str, added: list[Acl], admin: Any) -> None:
    assert run("acls", "add", *words.split()) == "".join(f"{acl}.\n" for acl in added)
    assert admin.acls.asked == added


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("principal", ["Group:staff", "user:ann", "Node:1"])
def test_principal_that_no_client_has_is_added_with_a_warning(principal: str) -> None:
    words = f"--allow-principal {principal} --allow-principal User:ann --topic t --group g"
    result = CliRunner().invoke(app, ["acls", "add", *words.split()])
    assert result.exit_code == 0
    assert result.stdout.count(".\n") == 4
    assert result.stderr == f"{principal} is no client of a Coterie node: those are User:NAME.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--topic t", "Say whom: --allow-principal User:NAME"),
        ("--allow-principal User:a", "Say of what: --topic NAME"),
        ("--allow-principal ann --topic t", "Principal must be a kind and a name, such as User:"),
        ("--allow-principal User:a --topic t --operation Raed", "Operation must be one of All"),
        (
            "--allow-principal User:a --topic t --resource-pattern-type suffixed",
            "Pattern must be one of Literal, Prefixed",
        ),
        ("--allow-principal User:a --consumer --topic t", "--consumer needs --topic and --group"),
        (
            "--allow-principal User:a --consumer --topic t --group g --operation Read",
            "leave out --operation",
        ),
        ("--allow-principal User:a --deny-host x --topic t", "Say whom, with --deny-host"),
    ],
)
def test_acl_that_makes_no_sense_is_not_added(words: str, sentence: str, admin: Any) -> None:
    assert sentence in run("acls", "add", *words.split(), code=2)
    assert admin.acls.asked == []


# acls remove


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (
            "--allow-principal User:ann --operation Read --group billing",
            [AclFilter("User:ann", "Read", "Group", "billing", "Allow", "*", "Literal")],
        ),
        ("--topic t", [AclFilter(None, "Any", "Topic", "t", "Any", None, "Literal")]),
    ],
)
def test_acls_are_removed(words: str, asked: list[AclFilter], admin: Any) -> None:
    said = run("acls", "remove", *words.split())
    assert said.startswith("RESOURCE")
    assert said.endswith("Removed 2 ACLs.\n")
    assert admin.acls.asked == asked


def test_dry_run_removes_nothing(admin: Any) -> None:
    async def refuse(_: object) -> None:
        raise AssertionError("a dry run that deletes")

    admin.acls.delete_many = refuse
    said = run("acls", "remove", "--topic", "t", "--dry-run")
    assert said.endswith("Nothing was removed: this was a dry run.\n")


def test_nothing_to_remove_is_an_error(admin: Any) -> None:
    admin.acls.there = ()
    assert run("acls", "remove", "--topic", "t", code=1) == "There are no such ACLs.\n"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (SecurityDisabledError("ACLs: No Authorizer is configured."), "looks at no ACLs"),
        (ClusterAuthorizationFailedError("ACLs"), "may not perform this operation"),
    ],
)
def test_refusal_is_a_sentence(error: Exception, sentence: str, admin: Any) -> None:
    async def refuse(_: object) -> None:
        raise error

    admin.acls.list = refuse
    said = run("acls", "list", code=1)
    assert sentence in said
    assert type(error).__name__ not in said


# users


def test_users_are_listed(admin: Any) -> None:
    del admin
    assert run("users", "list").splitlines() == ["USER  MECHANISMS", "ann   SCRAM-SHA-256"]
    assert json.loads(run("users", "list", "--json")) == [
        {"user": "ann", "mechanisms": {"SCRAM-SHA-256": 4096}}
    ]


def test_user_is_added_with_a_password_from_the_standard_input(admin: Any) -> None:
    said = run("users", "add", "bob", "--password-stdin", stdin=f"{PASSWORD}\r\n")
    assert said == "Added bob.\n"
    ((name, password, options),) = admin.users.asked
    assert (name, password) == ("bob", PASSWORD)
    assert list(options["mechanisms"]) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def test_password_is_asked_for_twice_and_not_shown(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users_command, "_at_terminal", lambda: True)
    said = run("users", "set-password", "ann", stdin=f"{PASSWORD}\n{PASSWORD}\n")
    assert "Changed the password of ann." in said
    assert PASSWORD not in said
    assert admin.users.asked[0][1] == PASSWORD


def test_mechanism_and_iterations_are_handed_on(admin: Any) -> None:
    words = "users set-password ann --password-stdin --for SCRAM-SHA-512 --iterations 16384"
    run(*words.split(), stdin=PASSWORD)
    options = admin.users.asked[0][2]
    assert options == {"mechanisms": ["SCRAM-SHA-512"], "iterations": 16_384}


@pytest.mark.parametrize(
    ("words", "stdin", "code", "sentence"),
    [
        ("users add ann --password-stdin", "x\n", 1, "There is a user 'ann' already"),
        ("users set-password amn --password-stdin", "x\n", 1, "no user 'amn'. The nearest"),
        ("users remove bob", None, 1, "There is no user 'bob'"),
        ("users add bob --password-stdin", "\n", 2, "The password is empty."),
        ("users add bob --password-stdin", "x" * 40_000, 2, "The password is too long."),
        ("users add bob", "x\n", 2, "no terminal to ask at: give the password with --password"),
        ("users add bob --for PLAIN", None, 2, "PLAIN"),
        ("users add bob --iterations 100", None, 2, "4096<=x<=16384"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: str, stdin: str | None, code: int, sentence: str, admin: Any
) -> None:
    assert sentence in " ".join(run(*words.split(), code=code, stdin=stdin).split())
    assert admin.users.asked == []


def test_user_is_removed(admin: Any) -> None:
    assert run("users", "remove", "ann") == "Removed ann.\n"
    said = run("users", "remove", "ann", "--for", "SCRAM-SHA-512")
    assert said == "Removed ann for SCRAM-SHA-512.\n"
    assert admin.users.asked == [
        ("ann", {"mechanisms": None}),
        ("ann", {"mechanisms": ["SCRAM-SHA-512"]}),
    ]


# The page


class AclStore(FakeAcls):
    """Keeps ACLs, and finds them by filters, as a server does."""

    async def list(self, which: AclFilter) -> tuple[Acl, ...]:
        """Tell of those that match."""
        found = [acl for acl in self.there if _matches(which, acl)]
        return tuple(sorted(found, key=lambda acl: (acl.resource, acl.name, acl.operation)))

    async def create(self, *acls: Acl) -> None:
        """Add some."""
        self.there += acls


def _matches(which: AclFilter, acl: Acl) -> bool:
    wanted = {name: getattr(which, name) for name in which.__slots__}
    return all(
        value is None or value == 1 or value == getattr(acl, name)  # 1 is any
        for name, value in wanted.items()
    )


def test_page_shows_what_the_commands_print(admin: Any) -> None:
    admin.acls = AclStore()
    admin.acls.there = ()
    page = PAGE.read_text(encoding="utf-8")
    shown = page.partition("## Who may do what")[2].partition("```console\n")[2].partition("```")[0]
    blocks = shown.split("$ coterie ")[1:]
    assert len(blocks) == 4
    for block in blocks:
        command, _, output = block.partition("\n")
        assert run(*command.split()) == output
