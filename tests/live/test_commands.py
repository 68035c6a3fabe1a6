"""The commands for administrators, as a person or a script uses them on a running daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie_cli.options import PASSWORD
from tests.interop.kafka_broker import free_port
from tests.live.daemon import Daemon, eventually
from tests.live.desk import Desk


@pytest.fixture(scope="module")
def own_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a topic."""
    folder = tmp_path_factory.mktemp("desk")
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Daemon(folder, topics={"orders": 3}, settings=settings) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def desk(own_daemon: Daemon) -> Iterator[Desk]:
    """Somebody who looks after it, and a group of one static member that has committed."""
    desk = Desk(own_daemon.address, own_daemon.http_port)
    with desk.static_member():
        yield desk


def test_topics_come_grow_and_go(desk: Desk) -> None:
    """Each step is said, and seen."""
    assert "Created jobs with 2 partitions." in desk.told("topics", "create", "jobs", "2")
    assert "jobs has 5 partitions now." in desk.told("topics", "grow", "jobs", "5")
    listed = {topic["name"]: topic["partitions"] for topic in desk.json("topics", "list")}
    assert listed == {"jobs": 5, "orders": 3}
    assert "Deleted jobs." in desk.told("topics", "delete", "jobs")
    assert desk.told("topics", "list").split() == ["TOPIC", "PARTITIONS", "orders", "3"]


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
def test_refusals_are_said(desk: Desk, words: tuple[str, ...], sentence: str) -> None:
    """In a sentence, without a traceback."""
    said = desk.refused(*words)
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
def test_misuse_is_told_from_refusal(desk: Desk, words: tuple[str, ...]) -> None:
    """By another exit code."""
    assert desk.refused(*words, code=2)


@pytest.mark.slow
def test_nobody_there_is_told_from_refusal(desk: Desk) -> None:
    """By another exit code still."""
    nowhere = f"127.0.0.1:{free_port()}"
    assert "No connection" in desk.refused("topics", "list", "--bootstrap", nowhere, code=3)
    assert "--http" in desk.refused("groups", "why", "static", "--http", nowhere, code=3)


def test_password_is_asked_for_by_the_name_of_its_variable(desk: Desk) -> None:
    """It is never an argument, which others could see."""
    assert PASSWORD in desk.refused("topics", "list", "--user", "ann", code=2)


def test_group_is_described(desk: Desk) -> None:
    """With what its member has."""
    assert "static  Stable  consumer" in desk.told("groups", "list")
    assert desk.told("groups", "list", "--state", "Dead") == "There are no groups.\n"
    described = desk.told("groups", "describe", "static")
    assert "static: Stable, cooperative-sticky" in described
    assert "orders[0-2]" in described
    (member,) = desk.json("members", "list", "static")
    assert member["instance_id"] == "i1"
    assert "orders[0-2]" in desk.told("members", "list", "static")


def test_rebalances_are_explained(desk: Desk) -> None:
    """The cause in words, for people; all of it for programs."""
    told = desk.told("groups", "why", "static")
    assert "generation 1: a member came that was not in the group" in told
    assert "partition-seconds stood still" in told
    assert desk.json("groups", "why", "static", "--last", "1")[0]["cause"]


def test_static_group_rebalances_when_told(desk: Desk) -> None:
    """And says why, afterwards."""
    assert "1 member to join again" in desk.told("groups", "rebalance", "static")
    eventually(lambda: "Stable" in desk.told("groups", "list"), "the rebalance")
    assert "administrator" in desk.told("groups", "why", "static", "--last", "1")


def test_offsets_are_shown(desk: Desk) -> None:
    """With what was noted along with them."""
    assert desk.json("offsets", "show", "static")["orders[0]"]["offset"] == 7
    assert "half done" in desk.told("offsets", "show", "static")


def test_offsets_are_reset(desk: Desk, tmp_path: Path) -> None:
    """To a number, by some, to a place, and as a file says; a dry run changes nothing."""
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,10\norders,1,20\norders,2,30\n", encoding="utf-8")
    desk.run("offsets", "reset", "idle", "--file", str(file))

    def offsets() -> list[int]:
        shown = desk.json("offsets", "show", "idle")
        return [shown[f"orders[{number}]"]["offset"] for number in range(3)]

    assert offsets() == [10, 20, 30]
    desk.run("offsets", "reset", "idle", "--shift", "-15", "--dry-run")
    assert offsets() == [10, 20, 30]
    desk.run("offsets", "reset", "idle", "--shift", "-15")
    assert offsets() == [0, 5, 15]
    desk.run("offsets", "reset", "idle", "--to", "4", "--topic", "orders:0,2-2")
    assert offsets() == [4, 5, 4]
    desk.run("offsets", "reset", "idle", "--to", "earliest")
    assert offsets() == [0, 0, 0]
    desk.run("offsets", "delete", "idle", "--topic", "orders:1", "--dry-run")
    assert len(offsets()) == 3
    desk.run("offsets", "delete", "idle", "--topic", "orders:1")
    assert "orders[1]" not in desk.json("offsets", "show", "idle")
    assert "Deleted idle" in desk.told("groups", "delete", "idle")


def test_offsets_are_set_before_a_group_works(desk: Desk) -> None:
    """Of topics that are named, though it has committed nothing."""
    desk.run("offsets", "reset", "fresh", "--to", "4", "--topic", "orders:0-1")
    shown = desk.json("offsets", "show", "fresh")
    assert {name: each["offset"] for name, each in shown.items()} == {
        "orders[0]": 4,
        "orders[1]": 4,
    }
    assert "nothing to reset" in desk.told("offsets", "reset", "fresh2", "--to", "4")
    assert "nowhere" in desk.refused("offsets", "reset", "fresh", "--to", "4", "--topic", "nowhere")


@pytest.mark.parametrize("line", ["orders,1", "orders,one,2", "orders,1,-2"])
def test_damaged_file_is_named(desk: Desk, tmp_path: Path, line: str) -> None:
    """With the line."""
    file = tmp_path / "offsets.csv"
    file.write_text(f"orders,0,10\n{line}\n", encoding="utf-8")
    said = desk.refused("offsets", "reset", "idle", "--file", str(file), code=2)
    assert "line 2" in said


def test_journal_is_read(desk: Desk, own_daemon: Daemon) -> None:
    """By people and by programs; commits only if they are wanted."""
    folder = str(own_daemon.data_dir)
    eventually(lambda: "rebalance completed" in desk.told("journal", "tail", folder), "the flush")
    told = desk.told("journal", "tail", folder, "--group", "static")
    assert "static: rebalance completed" in told
    assert "offsets committed" not in told
    assert "offsets committed" in desk.told("journal", "tail", folder, "--commits", "-n", "1000")
    lines = desk.told("journal", "tail", folder, "--json", "-n", "1").splitlines()
    assert json.loads(lines[0])["node"]
    assert "Whole" in desk.told("journal", "verify", folder)


def test_damaged_journal_is_reported(desk: Desk, own_daemon: Daemon, tmp_path: Path) -> None:
    """And so is a folder without any."""
    assert "no journal" in desk.refused("journal", "verify", str(tmp_path), code=2)
    (source,) = sorted((own_daemon.data_dir / "journal").glob("*.jsonl"))[:1]
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / source.name).write_text(lines[0] + lines[2], encoding="utf-8")
    assert "1 lines missing" in desk.refused("journal", "verify", str(tmp_path))
