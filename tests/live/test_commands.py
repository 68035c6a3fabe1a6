"""The commands for administrators, as a person or a script uses them on a running daemon."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie_cli.options import PASSWORD
from tests.live.commands import CommandRunner
from tests.live.daemon import Daemon, eventually
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def own_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a topic."""
    folder = tmp_path_factory.mktemp("commands")
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Daemon(folder, topics={"orders": 3}, settings=settings) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def commands(own_daemon: Daemon) -> Iterator[CommandRunner]:
    """Runs commands on it; there is a group of one static member that has committed."""
    commands = CommandRunner(own_daemon.address)
    with commands.static_member():
        yield commands


def test_topics_are_created_grown_and_deleted(commands: CommandRunner) -> None:
    assert "Created jobs with 2 partitions." in commands.told("topics", "create", "jobs", "2")
    assert "jobs has 5 partitions now." in commands.told("topics", "grow", "jobs", "5")
    listed = {topic["topic"]: topic["partitions"] for topic in commands.json("topics", "list")}
    assert listed == {"jobs": 5, "orders": 3}
    assert "Deleted jobs." in commands.told("topics", "delete", "jobs")
    assert commands.told("topics", "list").split() == ["TOPIC", "PARTITIONS", "orders", "3"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("topics", "create", "orders", "1"), "exists"),
        (("topics", "grow", "orders", "2"), "orders"),
        (("topics", "delete", "nowhere"), "nowhere"),
        (("groups", "describe", "nobody"), "nobody"),
        (("groups", "why", "nobody"), "nobody"),
        (("groups", "delete", "static"), "members"),
        (("groups", "rebalance", "nobody"), "nobody"),
        (("members", "remove", "static", "--member", "who"), "static"),
        (("offsets", "reset", "static", "--to", "1"), "members"),
    ],
)
def test_refusals_are_sentences(
    commands: CommandRunner, words: tuple[str, ...], sentence: str
) -> None:
    said = commands.refused(*words)
    assert sentence in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("members", "remove", "static"),
        ("members", "remove", "static", "--member", "m", "--instance", "i"),
        ("offsets", "reset", "static"),
        ("offsets", "reset", "static", "--to", "1", "--shift", "2"),
        ("offsets", "reset", "static", "--to", "noon"),
        ("offsets", "reset", "static", "--to", "1", "--topic", "orders:x"),
        ("offsets", "delete", "static"),
        ("topics", "create", "jobs", "0"),
        ("topics", "list", "--user", "ann"),
    ],
)
def test_misuse_has_an_exit_code_of_its_own(
    commands: CommandRunner, words: tuple[str, ...]
) -> None:
    assert commands.refused(*words, code=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("topics", "delete", "ordesr"), "no topic 'ordesr'. The nearest known one is 'orders'"),
        (("topics", "grow", "Orders", "9"), "The nearest known one is 'orders'."),
        (("topics", "grow", "zzz", "9"), "There is no topic 'zzz'."),
        (("groups", "describe", "sttic"), "no group 'sttic'. The nearest known one is 'static'."),
        (("groups", "delete", "sttic"), "The nearest known one is 'static'."),
        (("groups", "why", "sttic"), "The nearest known one is 'static'."),
        (("groups", "watch", "sttic"), "The nearest known one is 'static'."),
        (("groups", "rebalance", "sttic"), "The nearest known one is 'static'."),
        (("members", "list", "sttic"), "The nearest known one is 'static'."),
        (("members", "remove", "sttic", "--instance", "i1"), "The nearest known one is 'static'."),
        (("members", "remove", "static", "--instance", "i11"), "The nearest known one is 'i1'."),
        (("offsets", "show", "sttic"), "The nearest known one is 'static'."),
        (("offsets", "delete", "sttic", "--topic", "orders"), "The nearest known one is 'static'."),
        (("offsets", "delete", "static", "--topic", "order"), "The nearest known one is 'orders'."),
        (("offsets", "reset", "static", "--to", "1", "--topic", "order"), "is 'orders'."),
    ],
)
def test_missing_thing_is_an_error_that_names_the_nearest(
    commands: CommandRunner, words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in commands.refused(*words)


def test_unknown_state_is_refused_with_the_nearest(commands: CommandRunner) -> None:
    said = commands.refused("groups", "list", "--state", "stabel", code=2)
    assert said == "There is no state 'stabel'. The nearest known one is 'Stable'.\n"
    assert "There are PreparingRebalance, " in commands.refused(
        "groups", "list", "--state", "x", code=2
    )
    assert "static" in commands.told("groups", "list", "--state", "stable")


def test_refusal_of_many_partitions_is_said_once_without_tuples(commands: CommandRunner) -> None:
    said = commands.refused("offsets", "reset", "static", "--to", "1")
    assert said == (
        "Group static: stop the group's members before setting its offsets (NON_EMPTY_GROUP).\n"
    )


def test_offsets_that_are_not_set_are_not_shown_as_if_they_were(commands: CommandRunner) -> None:
    done = commands.run("offsets", "reset", "static", "--to", "1", code=1)
    assert done.stdout == ""


def test_refusal_that_is_about_partitions_names_them(
    commands: CommandRunner, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,7,10\norders,8,20\n", encoding="utf-8")
    said = commands.refused("offsets", "reset", "idle", "--file", str(file))
    assert said.startswith("orders[7-8]: ")
    assert said.count("orders") == 1


def test_what_no_patience_mends_is_not_said_to_work_later(commands: CommandRunner) -> None:
    assert "later" not in commands.refused("topics", "delete", "nowhere")


def test_unreachable_coordinator_is_told_at_once(commands: CommandRunner) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    said = commands.refused("topics", "list", "--bootstrap", nowhere, "--timeout", "60", code=3)
    assert "Connection refused" in said
    said = commands.refused("topics", "list", "--bootstrap", "nowhere.invalid:1", code=3)
    assert "The host nowhere.invalid is not known" in said
    said = commands.refused("groups", "why", "static", "--http", nowhere, code=3)
    assert said == f"No answer from http://{nowhere}: Connection refused.\n"
    assert time.monotonic() - began < 50


def test_port_of_another_protocol_is_told_in_words(
    commands: CommandRunner, own_daemon: Daemon
) -> None:
    http = f"127.0.0.1:{own_daemon.http_port}"
    said = commands.refused("topics", "list", "--bootstrap", http, code=3)
    assert f"{http} answers HTTP, not Kafka's protocol" in said
    said = commands.refused("groups", "why", "static", "--http", own_daemon.address, code=3)
    assert f"{own_daemon.address} closed the connection without an answer" in said
    said = commands.refused("topics", "list", "--tls", code=3)
    assert "expects no TLS" in said


def test_silent_server_is_waited_for_as_long_as_asked(commands: CommandRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        words = ("--bootstrap", silent, "--http", silent, "--timeout", "0.3")
        assert "0.3 s" in commands.refused("topics", "list", *words, code=3)
        assert "0.3 s" in commands.refused("groups", "why", "static", *words, code=3)


def test_slow_resolver_is_not_waited_for(
    commands: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(120) and [])
    began = time.monotonic()
    try:
        words = ("--bootstrap", "slow.invalid:9092", "--timeout", "0.3")
        assert "slow.invalid" in commands.refused("topics", "list", *words, code=3)
        assert time.monotonic() - began < 60
    finally:
        done.set()


def test_node_says_itself_where_it_answers_http(
    commands: CommandRunner, own_daemon: Daemon
) -> None:
    """The commands of these tests are given one address, and HTTP has a port of the system's."""
    where = ("--bootstrap", own_daemon.address)
    assert "generation 1" in commands.told("groups", "why", "static", *where)
    (row,) = (each for each in commands.json("groups", "list") if each["group"] == "static")
    assert (row["type"], row["members"]) == ("consumer", 1)
    assert row["generation"] >= 1


def test_names_complete(commands: CommandRunner) -> None:
    assert commands.completed("groups", "describe", "st") == ["static"]
    assert commands.completed("topics", "delete", "") == ["orders"]
    assert commands.completed("groups", "list", "--state", "St") == ["Stable"]
    nowhere = f"127.0.0.1:{free_port()}"
    assert commands.completed("groups", "describe", "--bootstrap", nowhere, "st") == []


def test_password_is_taken_from_a_variable(commands: CommandRunner) -> None:
    """As an argument, others on the machine could see it."""
    assert PASSWORD in commands.refused("topics", "list", "--user", "ann", code=2)


def test_group_is_described_with_what_its_member_owns(commands: CommandRunner) -> None:
    assert "static  Stable  consumer" in commands.told("groups", "list")
    assert commands.told("groups", "list", "--state", "Dead") == "There are no groups.\n"
    described = commands.told("groups", "describe", "static")
    assert "static: Stable, cooperative-sticky" in described
    assert "orders[0-2]" in described
    (member,) = commands.json("members", "list", "static")
    assert (member["instance"], member["host"]) == ("i1", "127.0.0.1")
    assert member["owned"] == {"orders": [0, 1, 2]}
    assert "orders[0-2]" in commands.told("members", "list", "static")


def test_rebalances_are_explained_for_people_and_programs(commands: CommandRunner) -> None:
    told = commands.told("groups", "why", "static")
    assert "generation 1: a member came that was not in the group" in told
    assert "partition-seconds stood still" in told
    assert commands.json("groups", "why", "static", "--last", "1")[0]["cause"]


def test_static_group_rebalances_on_request_and_says_why(commands: CommandRunner) -> None:
    assert "1 member to join again" in commands.told("groups", "rebalance", "static")
    eventually(lambda: "Stable" in commands.told("groups", "list"), "the rebalance")
    assert "administrator" in commands.told("groups", "why", "static", "--last", "1")


def test_offsets_are_shown_with_their_metadata(commands: CommandRunner) -> None:
    assert commands.json("offsets", "show", "static")["orders[0]"]["offset"] == 7
    assert "half done" in commands.told("offsets", "show", "static")


def test_offsets_are_reset_and_a_dry_run_changes_nothing(
    commands: CommandRunner, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,10\norders,1,20\norders,2,30\n", encoding="utf-8")
    commands.run("offsets", "reset", "idle", "--file", str(file))

    def offsets() -> list[int]:
        shown = commands.json("offsets", "show", "idle")
        return [shown[f"orders[{number}]"]["offset"] for number in range(3)]

    assert offsets() == [10, 20, 30]
    commands.run("offsets", "reset", "idle", "--shift", "-15", "--dry-run")
    assert offsets() == [10, 20, 30]
    commands.run("offsets", "reset", "idle", "--shift", "-15")
    assert offsets() == [0, 5, 15]
    commands.run("offsets", "reset", "idle", "--to", "4", "--topic", "orders:0,2-2")
    assert offsets() == [4, 5, 4]
    commands.run("offsets", "reset", "idle", "--to", "earliest")
    assert offsets() == [0, 0, 0]
    commands.run("offsets", "delete", "idle", "--topic", "orders:1", "--dry-run")
    assert len(offsets()) == 3
    commands.run("offsets", "delete", "idle", "--topic", "orders:1")
    assert "orders[1]" not in commands.json("offsets", "show", "idle")
    assert "Deleted idle" in commands.told("groups", "delete", "idle")


def test_offsets_are_set_for_a_group_that_has_committed_nothing(commands: CommandRunner) -> None:
    commands.run("offsets", "reset", "fresh", "--to", "4", "--topic", "orders:0-1")
    shown = commands.json("offsets", "show", "fresh")
    assert {name: each["offset"] for name, each in shown.items()} == {
        "orders[0]": 4,
        "orders[1]": 4,
    }
    said = commands.refused("offsets", "reset", "fesh", "--to", "4")
    assert said == "There is no group 'fesh'. The nearest known one is 'fresh'.\n"
    assert "nowhere" in commands.refused(
        "offsets", "reset", "fresh", "--to", "4", "--topic", "nowhere"
    )


@pytest.mark.parametrize("line", ["orders,1", "orders,one,2", "orders,1,-2"])
def test_damaged_file_is_named_with_the_line(
    commands: CommandRunner, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"orders,0,10\n{line}\n", encoding="utf-8")
    said = commands.refused("offsets", "reset", "idle", "--file", str(file), code=2)
    assert "line 2" in said


def test_journal_is_printed_with_commits_only_on_request(
    commands: CommandRunner, own_daemon: Daemon
) -> None:
    folder = str(own_daemon.data_dir)
    eventually(
        lambda: "rebalance completed" in commands.told("journal", "tail", folder), "the flush"
    )
    told = commands.told("journal", "tail", folder, "--group", "static")
    assert "static: rebalance completed" in told
    assert "offsets committed" not in told
    assert "offsets committed" in commands.told(
        "journal", "tail", folder, "--commits", "-n", "1000"
    )
    lines = commands.told("journal", "tail", folder, "--json", "-n", "1").splitlines()
    assert json.loads(lines[0])["node"]
    assert "Whole" in commands.told("journal", "verify", folder)


def test_damaged_or_missing_journal_is_reported(
    commands: CommandRunner, own_daemon: Daemon, tmp_path: Path
) -> None:
    assert "no journal" in commands.refused("journal", "verify", str(tmp_path), code=2)
    (source,) = sorted((own_daemon.data_dir / "journal").glob("*.jsonl"))[:1]
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / source.name).write_text(lines[0] + lines[2], encoding="utf-8")
    assert "1 lines missing" in commands.refused("journal", "verify", str(tmp_path))
