"""What the tables are declared to be, what the steps make, and what the page says, are one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.schema import columns, divided
from coterie_pipeline.steps import make_tables, parse
from coterie_pipeline.steps.commits import ENDS
from coterie_pipeline.streaming.alerts import ALERTS
from coterie_pipeline.tables import TABLES, Table
from coterie_pipeline.warehouse import bronze_schema
from coterie_protocol.journal import KINDS


@pytest.fixture(scope="module")
def page() -> str:
    """The documentation of the tables."""
    root = Path(__file__).parents[2]
    return (root / "docs" / "pipeline.md").read_text(encoding="utf-8")


def shown(table: Table) -> str:
    """A table as the page shows it."""
    rows = [f"| `{column.name}` | `{column.type}` | {column.meaning} |" for column in table.columns]
    return "\n".join(
        (
            f"### {table.name}",
            "",
            f"One row: {table.row}.",
            "",
            "| Column | Type | Meaning |",
            "| --- | --- | --- |",
            *rows,
        )
    )


@pytest.mark.parametrize("table", [*TABLES, ALERTS], ids=lambda table: table.name)
def test_page_shows_each_table_as_it_is_declared(page: str, table: Table) -> None:
    assert shown(table) in page


def test_every_kind_of_line_has_its_columns() -> None:
    # No field of any kind is lost, and fields that kinds disagree about have one each.
    names = set(columns().names)
    apart = {(each.kind, each.field): each.column for each in divided()}
    for kind, event in KINDS.items():
        fields = set(event.__dataclass_fields__)
        assert {apart.get((kind, field), field) for field in fields} <= names


@pytest.mark.slow
def test_steps_make_empty_tables_of_an_empty_journal(spark: SparkSession) -> None:
    raw = spark.createDataFrame([], "segment STRING, value STRING, why STRING")
    tables = make_tables(parse(raw).localCheckpoint(), spark.createDataFrame([], ENDS))
    assert {name: table.count() for name, table in tables.items()} == dict.fromkeys(
        (table.name for table in TABLES), 0
    )


def test_bronze_is_what_parsing_makes(spark: SparkSession) -> None:
    raw = spark.createDataFrame([], "segment STRING, value STRING, why STRING")
    made = parse(raw).schema
    kept = bronze_schema()
    assert [(f.name, f.dataType) for f in made] == [(f.name, f.dataType) for f in kept][:-1]
    assert kept.names[-1] == "piece"
