"""Which way groups are listed: over HTTP, or as any Kafka broker lists them."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import typer

from coterie_cli import connection
from coterie_cli.node_http import NoAnswerError, RefusedError
from coterie_cli.target import Target
from coterie_client.admin import GroupListing

BY_HTTP = {"group": "g", "generation": 3, "members": 2}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Where the nodes say that they answer HTTP; Kafka's listing has one group."""
    addresses: list[str | None] = []
    answers = iter((addresses, (GroupListing("kafka's", "consumer", "Stable", "classic"),)))
    monkeypatch.setattr(connection, "administer", lambda *_, **__: next(answers))
    return addresses


def answering(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have nodes answer HTTP; return the addresses that are asked."""
    asked: list[str] = []

    def answer(address: str, *_: object) -> list[dict[str, Any]]:
        asked.append(address)
        return [BY_HTTP | {"group": address}]

    monkeypatch.setattr(connection, "list_groups", answer)
    return asked


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no node answer HTTP."""

    def refuse(*_: object) -> NoReturn:
        raise NoAnswerError("No answer.")

    monkeypatch.setattr(connection, "list_groups", refuse)


def test_one_node_lists_the_groups_of_all(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += ["b:1", "a:1"]
    asked = answering(monkeypatch)
    assert [row["group"] for row in connection.find_groups(Target())] == ["b:1"]
    assert asked == ["b:1"]


def test_groups_are_listed_by_name(told: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    told += ["a:1"]
    rows = [BY_HTTP | {"group": name} for name in "bca"]
    monkeypatch.setattr(connection, "list_groups", lambda *_: rows)
    assert [row["group"] for row in connection.find_groups(Target())] == ["a", "b", "c"]


def test_next_node_is_asked_if_one_does_not_answer(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += ["b:1", "a:1"]

    def answer(address: str, *_: object) -> list[dict[str, Any]]:
        if address == "b:1":
            raise NoAnswerError("No answer.")
        return [BY_HTTP]

    monkeypatch.setattr(connection, "list_groups", answer)
    assert connection.find_groups(Target()) == [BY_HTTP]


def test_given_address_is_asked_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch)
    connection.find_groups(Target(http="here:1"))
    assert asked == ["here:1"]


def test_brokers_without_http_list_groups_by_kafkas_protocol(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += ["a:1", None]
    answering(monkeypatch)
    (row,) = connection.find_groups(Target())
    assert row == {
        "group": "kafka's",
        "state": "Stable",
        "generation": None,
        "type": "consumer",
        "protocol": None,
        "members": None,
    }


def test_http_that_cannot_be_reached_is_no_obstacle(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += ["a:1"]
    silent(monkeypatch)
    assert connection.find_groups(Target())[0]["group"] == "kafka's"


def test_node_that_wants_a_token_is_named_though_groups_are_listed_without_it(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told += ["a:1"]

    def refuse(*_: object) -> NoReturn:
        raise RefusedError("unauthorized", "http://a:1 wants a token: put it into X.")

    monkeypatch.setattr(connection, "list_groups", refuse)
    assert connection.find_groups(Target())[0]["group"] == "kafka's"
    assert capsys.readouterr() == (
        "",
        "Generations and members are left out: http://a:1 wants a token: put it into X.\n",
    )


def test_given_address_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    silent(monkeypatch)
    with pytest.raises(typer.Exit):
        connection.find_groups(Target(http="here:1"))
