"""Which store a URL names."""

from pathlib import Path

import pytest

from coterie_server.storage import MemoryStore, StoreError, count_parts, open_store


@pytest.mark.parametrize("url", ["memory:", "memory://"])
def test_memory(url: str) -> None:
    assert isinstance(open_store(url), MemoryStore)
    assert open_store(url) is not open_store(url)


def test_sqlite_file(tmp_path: Path) -> None:
    assert open_store(f"sqlite:{tmp_path}/groups").url == f"sqlite:{tmp_path}/groups"


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("sqlite:groups.db").url == f"sqlite:{tmp_path}/groups.db"
    assert open_store("data").url == f"sqlite:{tmp_path}/data/coterie.db"


def test_data_directory(tmp_path: Path) -> None:
    assert open_store(str(tmp_path)).url == f"sqlite:{tmp_path}/coterie.db"
    assert open_store(f"{tmp_path}/new").url == f"sqlite:{tmp_path}/new/coterie.db"


def test_path_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "groups").touch()
    assert open_store(f"{tmp_path}/groups").url == f"sqlite:{tmp_path}/groups"
    assert open_store(f"{tmp_path}/new.db").url == f"sqlite:{tmp_path}/new.db"


def test_url_names_the_same_store(tmp_path: Path) -> None:
    for named in ("memory:", str(tmp_path)):
        url = open_store(named).url
        assert open_store(url).url == url


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgresql(scheme: str) -> None:
    store = open_store(f"{scheme}://ann:s3cret@db.example/coterie?schema=groups")
    assert store.url == f"{scheme}://ann@db.example/coterie?schema=groups"
    assert open_store(store.url).url == store.url


@pytest.mark.parametrize(
    "url", ["mysql://localhost/coterie", "sqlite:", "sqlite::memory:", "memory:groups"]
)
def test_unknown_store_is_refused(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert str(caught.value) == (
        f"{url} is not a store: expected memory:, sqlite:PATH,"
        " postgresql://USER@HOST/DATABASE or the path of a data directory"
    )


@pytest.mark.parametrize("word", ["memory", "sqlite"])
def test_kind_of_store_without_its_colon_is_no_directory(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=f"{word} is not a store: expected {word}:"):
        open_store(word)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "word",
    [
        "postgresql",
        "Postgres",
        "postgresq",
        "sqlite3",
        "sqlite/groups",
        "postgresql//ann@db/groups",
    ],
)
def test_url_that_is_mistyped_is_no_directory(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"is not a store: expected (sqlite:PATH|postgresql://)"):
        open_store(word)
    assert list(tmp_path.iterdir()) == []
    assert open_store(f"./{word}").url.startswith(f"sqlite:{tmp_path}/")


def test_directory_that_is_there_may_have_such_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sqlite3").mkdir()
    assert open_store("sqlite3").url == f"sqlite:{tmp_path}/sqlite3/coterie.db"


def test_password_of_a_mistyped_url_is_not_shown() -> None:
    with pytest.raises(StoreError) as caught:
        open_store("postgresql//ann:s3cret@db/groups")
    assert str(caught.value).startswith("postgresql...@db/groups is not a store")


def test_password_is_not_shown() -> None:
    with pytest.raises(StoreError) as caught:
        open_store("mysql://ann:s3cret@localhost/coterie")
    assert str(caught.value).startswith("mysql://ann@localhost/coterie is not a store")


def test_only_a_store_of_several_nodes_makes_a_node_look_for_others(tmp_path: Path) -> None:
    assert open_store("postgresql://coterie_node@localhost/coterie").is_shared
    assert open_store(f"sqlite:{tmp_path}/groups.db").is_shared
    assert not open_store(str(tmp_path)).is_shared
    assert not open_store("memory:").is_shared


def test_files_of_a_divided_store_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    urls = (str(tmp_path), str(tmp_path / "coterie.db"), f"sqlite:{tmp_path}/coterie.db", ".")
    assert [count_parts(url) for url in urls] == [0, 0, 0, 0]
    for number in (1, 2, 3):
        (tmp_path / f"coterie-{number}-of-3.db").touch()
    assert [count_parts(url) for url in urls] == [3, 3, 3, 3]
    assert [count_parts(url) for url in ("memory:", "postgresql://db/x", "elsewhere")] == [0, 0, 0]
