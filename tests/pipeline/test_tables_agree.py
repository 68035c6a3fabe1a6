"""Spark's tables equal the oracle's, on stories and simulated runs."""

from __future__ import annotations

import pytest

from tests.support.pipeline_tables import KEYS, TableRows, differences


@pytest.mark.slow
def test_spark_and_the_oracle_agree(
    tables_of_spark: TableRows, tables_of_oracle: TableRows
) -> None:
    # Every row of every table, over all kinds of runs, and what they hardly ever come to.
    found, wanted = tables_of_spark.tables, tables_of_oracle.tables
    texts = [text for name in KEYS for text in differences(name, found[name], wanted[name])]
    assert not texts, "\n".join(("Spark has", *texts))
