"""Reading journals once: what is new, what has grown, what went away."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
from pathlib import Path
from unittest.mock import ANY
from urllib.parse import quote

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline import warehouse
from coterie_pipeline.batch import (
    NoJournalsError,
    Reading,
    RunResult,
    read_ends,
    read_new,
    run,
)
from coterie_pipeline.failures import FAILURES, what_is_gone
from coterie_pipeline.files import list_files
from coterie_pipeline.steps import Materialize, make_tables
from coterie_pipeline.tables import TABLES
from coterie_pipeline.warehouse import Moment, NoTablesError, UnusableDirectoryError, Warehouse
from coterie_protocol.journal import GroupEmptied, Line, OffsetsCommitted, write_line
from coterie_protocol.journal_text import segment_name


class Place:
    """A journal, and where its tables go."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.journal = folder / "my journal"
        self.journal.mkdir()
        self.out = str(folder / "out")

    def write(self, first: int, count: int, *, node: str = "1", packed: bool = False) -> Path:
        """Write a file of a node, as it is or packed; the same file grows if it was there."""
        lines = (
            Line(1000 * seq, node, seq, GroupEmptied(group="g", generation=seq))
            for seq in range(first, first + count)
        )
        text = "".join(write_line(line) + "\n" for line in lines)
        path = self.journal / segment_name(node, first)
        if packed:
            path = path.with_name(f"{path.name}.gz")
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, encoding="utf-8")
        return path

    def read(self) -> Reading:
        """Read what is new."""
        return read_new(self.spark, [str(self.journal)], self.out)

    def lines(self) -> list[tuple[str, int]]:
        """What is there by now, in order: the nodes and numbers of the lines that count."""
        rows = Warehouse(self.spark, self.out).bronze(("control",)).orderBy("node", "seq").collect()
        return [(row.node, row.seq) for row in rows]


def numbers(first: int, count: int, node: str = "1") -> list[tuple[str, int]]:
    """The lines of a node."""
    return [(node, seq) for seq in range(first, first + count)]


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    """An empty place."""
    return Place(spark, tmp_path)


@pytest.mark.slow
def test_only_what_is_new_is_read_again(place: Place) -> None:
    # A second time, the files that were not there are read.
    place.write(1, 3)
    assert place.read() == Reading(1, 1)
    assert place.read() == Reading(1, 0)
    place.write(4, 2)
    place.write(1, 7, node="2", packed=True)
    assert place.read() == Reading(3, 2)
    assert place.lines() == numbers(1, 5) + numbers(1, 7, "2")


@pytest.mark.slow
def test_file_that_has_grown_is_read_as_a_whole(place: Place) -> None:
    path = place.write(1, 2)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"v":1,"ts":3000,"no')
    place.read()
    unread = Warehouse(place.spark, place.out).bronze(("unread",))
    assert [row.why for row in unread.collect()] == ["torn"]
    place.write(1, 5)
    assert place.read() == Reading(1, 1)
    assert Warehouse(place.spark, place.out).bronze(("unread",)).count() == 0
    assert place.lines() == numbers(1, 5)


@pytest.mark.slow
def test_deleted_file_stays(place: Place) -> None:
    # A node deletes old files; what they said is not forgotten.
    old = place.write(1, 3)
    place.write(4, 3)
    place.read()
    old.unlink()
    place.write(7, 1)
    assert place.read() == Reading(2, 1)
    assert place.lines() == numbers(1, 7)


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [True, False])
def test_file_that_goes_on_under_another_path_counts_once(place: Place, is_packed: bool) -> None:  # noqa: FBT001
    old = place.write(1, 3)
    with old.open("a", encoding="utf-8") as file:
        file.write('{"v":1,"ts":3000,"no')
    place.write(4, 2)
    place.read()
    runs = Warehouse(place.spark, place.out).runs()
    new = place.journal / "archive" / old.name
    new.parent.mkdir()
    if is_packed:
        new = new.with_name(f"{new.name}.gz")
        new.write_bytes(gzip.compress(old.read_bytes()))
    else:
        new.write_bytes(old.read_bytes())
    assert place.read() == Reading(3, 1)
    assert place.lines() == sorted(numbers(1, 5) + numbers(1, 3))
    old.unlink()
    assert place.read() == Reading(2, 0)
    assert place.lines() == numbers(1, 5)
    warehouse = Warehouse(place.spark, place.out)
    assert [row.segment for row in warehouse.bronze(("unread",)).collect()] == [
        f"file:{quote(str(new))}"
    ]
    assert warehouse.runs() > runs + 1


@pytest.mark.slow
def test_file_that_is_there_as_it_is_and_packed_is_read_as_it_is(place: Place) -> None:
    # The packed one may still be being written; `follow` passes over it as well.
    plain = place.write(1, 3)
    packed = plain.with_name(f"{plain.name}.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes())[:-10])
    assert place.read() == Reading(1, 1)
    assert place.lines() == numbers(1, 3)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert place.read() == Reading(1, 0)
    plain.unlink()
    assert place.read() == Reading(1, 1)
    assert place.lines() == numbers(1, 3)


@pytest.mark.slow
def test_file_that_lacks_lines_of_one_that_is_gone_does_not_replace_it(place: Place) -> None:
    # Two nodes of one name, or half a file.
    old = place.write(1, 3)
    place.read()
    old.unlink()
    place.write(1, 2, packed=True)
    assert place.read() == Reading(1, 1)
    assert place.lines() == sorted(numbers(1, 3) + numbers(1, 2))


@pytest.mark.slow
def test_what_a_killed_run_left_in_part_does_not_count(place: Place) -> None:
    # In an object store, lines are in their place before they are noted.
    place.write(1, 3)
    place.read()
    events = Path(place.out, "events")
    shutil.copytree(events / "piece=run-000001", events / "piece=run-000002")
    assert place.lines() == numbers(1, 3)
    place.write(4, 2)
    assert place.read() == Reading(2, 1)
    assert place.lines() == numbers(1, 5)


@pytest.fixture(params=["Python", "Spark"])
def by_either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read by Python, or by Spark as those in object stores are."""
    if request.param == "Spark":
        monkeypatch.setattr(Warehouse, "add_files", lambda *_: None)


@pytest.mark.slow
@pytest.mark.usefixtures("by_either")
def test_file_that_goes_away_while_it_is_read_is_read_when_it_is_back(place: Place) -> None:
    path = place.write(1, 3)
    place.write(4, 2)
    aside = path.with_name("aside")

    def move(stage: str) -> None:
        if stage.startswith("reading"):
            path.rename(aside)

    assert read_new(place.spark, [str(place.journal)], place.out, move) == Reading(2, 2)
    assert place.lines() == numbers(4, 2)
    aside.rename(path)
    assert place.read() == Reading(2, 1)
    assert place.lines() == numbers(1, 5)


@pytest.mark.slow
@pytest.mark.usefixtures("by_either")
def test_brackets_and_stars_in_paths_mean_themselves(place: Place) -> None:
    # To Spark, `[1]` is a pattern for `1`.
    place.write(1, 1, node="other")
    place.read()
    place.journal = place.journal.with_name("my journal[1]")
    (place.journal / "a*{b}").mkdir(parents=True)
    place.write(1, 2).rename(place.journal / "a*{b}" / segment_name("1", 1))
    other, place.out = place.out, place.out.replace("out", "ou[t]")
    assert place.read() == Reading(1, 1)
    assert place.lines() == numbers(1, 2)
    place.out = other
    assert place.lines() == numbers(1, 1, "other")


def test_single_file_can_be_read(place: Place) -> None:
    path = place.write(1, 2)
    place.write(3, 2)
    assert read_new(place.spark, [str(path)], place.out) == Reading(1, 1)
    assert place.lines() == numbers(1, 2)


@pytest.mark.slow
def test_files_of_other_names_are_not_read_but_named(place: Place) -> None:
    place.write(1, 1)
    notes = place.journal / "my notes.txt"
    notes.write_text("hello\n")
    assert place.read() == Reading(1, 1, passed_over=(str(notes),))


def test_a_pipe_is_not_among_the_files_of_a_journal(place: Place) -> None:
    """It has nothing to read, and whoever reads it waits for ever."""
    path = place.write(1, 1)
    os.mkfifo(place.journal / segment_name("2", 1))
    found = list_files(place.spark, str(place.journal))
    assert found is not None
    assert [each.name for each in found] == [path.name]


@pytest.mark.slow
def test_what_it_made_itself_is_no_oddity(place: Place) -> None:
    place.out = str(place.journal / "out")
    place.write(1, 1)
    place.read()
    assert place.read() == Reading(1, 0)


@pytest.mark.slow
def test_file_that_is_asked_for_by_its_name_is_read_whatever_that_is(place: Place) -> None:
    path = place.write(1, 2).rename(place.journal / "saved.log")
    assert read_new(place.spark, [str(path)], place.out) == Reading(1, 1)
    assert place.lines() == numbers(1, 2)


@pytest.mark.slow
@pytest.mark.usefixtures("by_either")
def test_of_a_file_that_cannot_be_unpacked_to_its_end_the_beginning_is_read(place: Place) -> None:
    # All others are read, and it is read again once it has changed.
    place.write(1, 3)
    path = place.write(1, 8_000, node="2", packed=True)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    broken = place.write(1, 1, node="3").with_name(f"{segment_name('4', 1)}.gz")
    broken.write_bytes(b"this is no archive")
    assert place.read() == Reading(4, 4, damaged=(str(path), str(broken)))
    read = place.lines()
    assert read[:3] == numbers(1, 3)
    assert 0 < len(read) - 4 < 8_000
    unread = Warehouse(place.spark, place.out).bronze(("unread",))
    assert {
        row.segment.rpartition("/")[2] for row in unread.where("why = 'damaged'").collect()
    } == {path.name, broken.name}
    path.write_bytes(whole)
    broken.unlink()
    assert place.read() == Reading(3, 1)
    assert len(place.lines()) == 8_004


@pytest.mark.slow
def test_file_that_only_java_unpacks_is_read(place: Place) -> None:
    path = place.write(1, 3)
    packed = path.with_name("a.bz2")
    packed.write_bytes(bz2.compress(path.read_bytes()))
    read_new(place.spark, [str(packed)], place.out)
    assert place.lines() == numbers(1, 3)


def test_path_without_journals_is_refused(place: Place) -> None:
    # An empty folder and a folder that is not there are sentences, not traces.
    with pytest.raises(NoJournalsError, match=r"There are no journals in .*my journal\."):
        place.read()
    with pytest.raises(NoJournalsError, match=r"There is no /nowhere\."):
        read_new(place.spark, ["/nowhere"], place.out)
    assert not Path(place.out).exists()


def test_directory_with_other_files_is_refused(place: Place) -> None:
    place.write(1, 1)
    with pytest.raises(UnusableDirectoryError, match="holds something else already"):
        read_new(place.spark, [str(place.journal)], str(place.journal))


def test_directory_of_another_runner_is_refused(place: Place) -> None:
    # `run` and `follow` note different things about what they have read.
    Warehouse(place.spark, place.out).claim("follow")
    place.write(1, 1)
    with pytest.raises(UnusableDirectoryError, match=r"belongs to `coterie pipeline follow`"):
        place.read()


def test_directory_of_another_layout_is_refused(place: Place) -> None:
    Warehouse(place.spark, place.out).note({"layout": warehouse.LAYOUT + 1, "runner": "run"})
    place.write(1, 1)
    with pytest.raises(UnusableDirectoryError, match="made by another version of Coterie"):
        place.read()


@pytest.mark.parametrize("content", ["", "[]", '{"layout": 2'])
def test_damaged_state_is_refused(place: Place, content: str) -> None:
    place.write(1, 1)
    Warehouse(place.spark, place.out).claim("run")
    Path(place.out, "state.json").write_text(content)
    with pytest.raises(UnusableDirectoryError, match="is damaged"):
        place.read()


@pytest.mark.slow
def test_state_that_was_put_back_by_hand_counts(place: Place) -> None:
    # Beside files that Hadoop writes there are checksums of what they were.
    place.write(1, 1)
    place.read()
    state = Path(place.out, "state.json")
    state.write_text(f"{state.read_text()}\n")
    assert place.read() == Reading(1, 0)


@pytest.mark.slow
def test_lines_that_are_gone_from_the_directory_are_missed(place: Place) -> None:
    # Tables of what is left would not say that they lack anything.
    place.write(1, 2)
    place.read()
    place.write(3, 2)
    shutil.rmtree(Path(place.out, "events"))
    with pytest.raises(UnusableDirectoryError, match="events lacks piece=run-000001"):
        place.read()


def test_directory_in_use_is_refused(place: Place) -> None:
    place.write(1, 1)
    with (
        Warehouse(place.spark, place.out).alone(),
        pytest.raises(UnusableDirectoryError, match="Another `coterie pipeline` works in"),
    ):
        place.read()
    assert place.read() == Reading(1, 1)


def test_path_that_is_no_directory_is_refused(place: Place) -> None:
    place.write(1, 1)
    Path(place.out).write_text("mine")
    with pytest.raises(UnusableDirectoryError, match="can't be written to: File exists"):
        place.read()


def test_missing_tables_are_an_error_with_a_hint(place: Place) -> None:
    with pytest.raises(NoTablesError, match="make them with `coterie pipeline run`"):
        Warehouse(place.spark, place.out).tables()


@pytest.fixture
def few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have only the nodes' lines counted: what is tested is how tables are put in place."""

    def make(bronze: DataFrame, _ends: DataFrame, materialize: Materialize) -> dict[str, DataFrame]:
        lines = bronze.groupBy("node").count().select("node", F.col("count").alias("lines"))
        tables = {"nodes": materialize("nodes", lines)}
        for name in ("_replay", *(table.name for table in TABLES if table.name != "nodes")):
            tables[name] = materialize(name, bronze.select("node").limit(0))
        return {table.name: tables[table.name] for table in TABLES}

    monkeypatch.setattr(warehouse, "make_tables", make)


@pytest.mark.slow
@pytest.mark.usefixtures("few_tables")
def test_new_tables_appear_when_all_of_them_are_made(place: Place) -> None:
    # A run that is killed leaves the former tables in place; two moments are kept for readers.
    shown = Warehouse(place.spark, place.out)
    place.write(1, 2)
    journals = [str(place.journal)]
    assert run(place.spark, journals, place.out).moment.number == 1
    assert run(place.spark, journals, place.out) == RunResult(Reading(1, 0), Moment(1, ANY, 1))

    def die(stage: str) -> None:
        if stage == "_replay":  # a table is written by then
            raise KeyboardInterrupt

    Path(place.out, "tables", "000000").mkdir()
    place.write(3, 1)
    with pytest.raises(KeyboardInterrupt):
        run(place.spark, journals, place.out, on_stage=die)
    assert Path(place.out, "tables", "000002", "nodes").exists()
    (node,) = shown.table("nodes").collect()
    assert node.lines == 2
    # The lines are there since, so there is nothing new to be read.
    assert run(place.spark, journals, place.out) == RunResult(Reading(2, 0), Moment(2, ANY, 2))
    (node,) = shown.table("nodes").collect()
    assert node.lines == 3
    assert sorted(path.name for path in Path(place.out, "tables").iterdir()) == ["000001", "000002"]


@pytest.mark.slow
def test_partitions_with_a_known_end_have_a_lag(place: Place, tmp_path: Path) -> None:
    # A file says where partitions end; a partition that it does not name has no lag.
    event = OffsetsCommitted(group="g", member="m", generation=1, offsets={"t": {"0": 70, "1": 5}})
    line = write_line(Line(1_000, "1", 1, event))
    (place.journal / segment_name("1", 1)).write_text(line + "\n")
    place.read()
    path = tmp_path / "ends.csv"
    path.write_text("topic,partition,ts,offset\nt,0,500,90\nt,0,2000,100\n")
    bronze, ends = Warehouse(place.spark, place.out).bronze(), read_ends(place.spark, str(path))
    made = make_tables(bronze, ends, names=["commits"])
    commits = made["commits"].orderBy("partition").collect()
    assert [(row.last_offset, row.end_offset, row.lag) for row in commits] == [
        (70, 100, 30),
        (5, None, None),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("few_tables")
def test_tables_that_are_deleted_while_they_are_read_are_not_empty(place: Place) -> None:
    # A slow reader of a directory whose tables are made again and again.
    place.write(1, 2)
    run(place.spark, [str(place.journal)], place.out)
    nodes = Warehouse(place.spark, place.out).tables()["nodes"]
    shutil.rmtree(Path(place.out, "tables"))
    with pytest.raises(FAILURES) as failed:
        nodes.collect()
    assert str(what_is_gone(failed.value)).endswith(".parquet")


@pytest.mark.slow
@pytest.mark.usefixtures("few_tables")
@pytest.mark.parametrize("gone", ["tables", "tables/000001/nodes", "latest.json"])
def test_tables_that_are_gone_are_made_again(place: Place, gone: str) -> None:
    place.write(1, 2)
    journals = [str(place.journal)]
    run(place.spark, journals, place.out)
    path = Path(place.out, gone)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.write_text("")  # as a power failure may leave it
    shown = Warehouse(place.spark, place.out)
    with pytest.raises(NoTablesError):
        shown.tables()
    assert run(place.spark, journals, place.out).reading == Reading(1, 0)
    assert [row.lines for row in shown.table("nodes").select("lines").collect()] == [2]
