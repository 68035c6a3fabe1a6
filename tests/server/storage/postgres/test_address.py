"""URLs of PostgreSQL stores."""

from __future__ import annotations

from urllib.parse import unquote, urlencode

import pytest

from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.urls import has_password, without_password


def test_parts_of_a_url() -> None:
    address = Address.parse(
        "postgres://ann%40x:s%2F@one.example,[::1]:6432/groups?schema=ours&connect_timeout=2.5&sslmode=require"
    )
    assert address.hosts == (("one.example", None), ("::1", 6432))
    assert address.dsn == "postgresql://ann%40x@/groups?sslmode=require"
    assert address.password == unquote("s%2F")
    assert (address.schema, address.connect_s) == ("ours", 2.5)


@pytest.mark.parametrize(
    ("place", "hosts"),
    [
        ("a,b", (("a", None), ("b", None))),
        ("ann@[::1],b:6432", (("::1", None), ("b", 6432))),
        ("[::1]:1,[fe80::1]:2", (("::1", 1), ("fe80::1", 2))),
        ("ann:s%2F@%2Frun%2Fpg", (("/run/pg", None),)),
        ("", ()),
    ],
)
def test_several_hosts_of_any_kind(place: str, hosts: tuple[tuple[str, int | None], ...]) -> None:
    for rest in ("", "/x", "?schema=ours", "/x?schema=ours"):
        assert Address.parse(f"postgresql://{place}{rest}").hosts == hosts


def test_what_the_environment_says_is_left_to_it() -> None:
    address = Address.parse("postgresql://")
    assert (address.hosts, address.dsn, address.password) == ((), "postgresql:", None)


@pytest.mark.parametrize(
    ("listed", "ports", "hosts"),
    [
        ("one,two", "", (("one", None), ("two", None))),
        ("one,two", "6432", (("one", 6432), ("two", 6432))),
        ("one,/run/pg", "1,2", (("one", 1), ("/run/pg", 2))),
        ("one:1,[::1]:2", "", (("one", 1), ("::1", 2))),
        ("one:1,two", "6432", (("one", 1), ("two", 6432))),
        ("one", "6432", ()),
    ],
)
def test_servers_that_are_listed_elsewhere_are_tried_in_turn_as_well(
    monkeypatch: pytest.MonkeyPatch,
    listed: str,
    ports: str,
    hosts: tuple[tuple[str, int | None], ...],
) -> None:
    parameters = urlencode({"host": listed, "port": ports} if ports else {"host": listed})
    address = Address.parse(f"postgresql://ann@/x?{parameters}&sslmode=require")
    assert address.hosts == hosts
    assert ("host=" in address.dsn) == (not hosts)

    monkeypatch.setenv("PGHOST", listed)
    monkeypatch.setenv("PGPORT", ports)
    assert Address.parse("postgresql://ann@/x").hosts == hosts
    assert Address.parse("postgresql://ann@three/x").hosts == (("three", None),)


def test_repr_has_no_secret() -> None:
    assert "s3cret" not in repr(Address.parse("postgresql://ann:s3cret@db/x?sslpassword=s3cret"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@db:1/x?a=b", "postgresql://ann@db:1/x?a=b"),
        ("postgresql://ann:p@ss/w:rd@db/x", "postgresql://ann@db/x"),
        ("postgresql://db/x?password=s3cret&a=b", "postgresql://db/x?a=b"),
        ("postgresql://db/x?pass%77ord=s3cret", "postgresql://db/x"),
        ("postgresql://ann@db/x?sslpassword=s3cret", "postgresql://ann@db/x"),
        ("postgresql://ann:s3?cret@db/x", "postgresql://ann@db/x"),
        ("postgresql://ann:5?ecret@db/x", "postgresql://ann@db/x"),
        ("postgresql://ann:s3@c?r=et@db/x", "postgresql://ann@db/x"),
        ("postgresql://db:1/x?user=ann@db&password=s3cret", "postgresql://db:1/x?user=ann@db"),
        ("postgresql:ann:s3cret@db/x", "postgresql:...@db/x"),
        ("postgresql:/ann:s3cret@db/x", "postgresql:...@db/x"),
        ("ann:s3cret@db/x", "ann:...@db/x"),
    ],
)
def test_shown_url_has_no_secret(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert has_password(url)


@pytest.mark.parametrize(
    "text", ["postgresql://ann@db/x?schema=a", "sqlite:/a:b@c", "./a:b@c", "data", ""]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_password(text) == text
    assert not has_password(text)


@pytest.mark.parametrize("before", ["", "a,", "[", "12345", "ann@"])
@pytest.mark.parametrize("mark", ["/", "#", "?", "/?", "?a=b/", "#?"])
def test_password_that_should_have_been_quoted_is_not_shown(before: str, mark: str) -> None:
    with pytest.raises(StoreError) as caught:
        Address.parse(f"postgresql://ann:{before}S3cret{mark}rest@db.example:5432/groups")
    assert "S3cret" not in str(caught.value)
    assert "write / ? and # in a user's name or a password as %2F, %3F and %23" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://db/x?schema=", "schema must be a name of 1 to 63 bytes"),
        (f"postgresql://db/x?schema={'é' * 32}", "schema must be a name of 1 to 63 bytes"),
        ("postgresql://db/x?connect_timeout=soon", "connect_timeout must be a positive number"),
        ("postgresql://db/x?connect_timeout=-1", "connect_timeout must be a positive number"),
        ("postgresql://db/x?connect_timeout=nan", "connect_timeout must be a positive number"),
        ("postgresql://db:65536/x", "'db:65536': a port is a number from 0 to 65535"),
        ("postgresql://a,b:65536/x", "'b:65536': a port is a number from 0 to 65535"),
        ("postgresql:///x?host=a,b&port=1,65536", "'65536': a port is a number from 0 to 65535"),
        ("postgresql:///x?host=a,b&port=1,2,3", "3 ports for 2 hosts"),
        ("postgresql:///x?host=a,b&port=1,", "'': a port is a number from 0 to 65535"),
        ("postgresql:///x?host=a,b:c", "'b:c' is not HOST or HOST:PORT"),
        ("postgresql://db:port/x", "'db:port' is not HOST or HOST:PORT"),
        ("postgresql://db/x?schema", "expected parameters like ?schema=coterie"),
        ("postgresql://[::1/x", "'[::1' is not HOST or HOST:PORT"),
    ],
)
def test_unusable_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(StoreError) as caught:
        Address.parse(url)
    assert said in str(caught.value)
