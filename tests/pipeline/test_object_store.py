"""On a cluster, from and to an object store: the same tables as in one process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from coterie_pipeline.tables import TABLES
from tests.live.daemon import HOST, coterie, environment
from tests.pipeline.cluster import Cluster
from tests.pipeline.object_store import ObjectStore, hadoop_aws, moto_server
from tests.support.journals import simulated, write_journal

_MOTO: Final = moto_server()

pytestmark = [
    pytest.mark.spark_slow,
    pytest.mark.skipif(_MOTO is None, reason="there is no moto_server: use `make object-store`"),
]

#: As a user has them in the environment.
_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}

_KEY: Final = "<Key>"


@pytest.fixture(scope="module")
def jars() -> Sequence[Path]:
    """Hadoop's file system for S3."""
    found = hadoop_aws()
    if not found:
        pytest.skip("Hadoop's file system for S3 needs mvn on the PATH")
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    """An object store with two empty buckets."""
    assert _MOTO is not None
    with ObjectStore(_MOTO, tmp_path / "moto.log") as store:
        for bucket in ("journals", "answers"):
            store.put(bucket)
        yield store


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two workers."""
    with Cluster(tmp_path, workers=2) as cluster:
        yield cluster


def settings(store: ObjectStore, jars: Sequence[Path]) -> Mapping[str, str]:
    """How Spark reaches the store, and how the cluster reaches the driver."""
    return {
        # Where they are on each machine; `spark.jars.packages` would get them.
        "spark.jars": ",".join(f"local:{path}" for path in jars),
        "spark.hadoop.fs.s3a.endpoint": store.address,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "512m",
    }


def make(journal: str, out: str, master: str, conf: Mapping[str, str]) -> dict[str, Any]:
    """How many files were read, and how many rows each table has then."""
    command = [coterie(), "pipeline", "run", journal, "-o", out, "--master", master, "--by-day"]
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [*command, *options, "--json"],
        check=True,
        env=environment() | _CREDENTIALS,
        stdout=subprocess.PIPE,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(tables: Path) -> dict[str, list[Any]]:
    """All rows of all tables, in an order of their own."""
    with duckdb.connect() as database:
        return {
            table.name: sorted(
                database.read_parquet(f"{tables}/{table.name}/**/*.parquet")
                .project(", ".join(map('"{}"'.format, table.names)))
                .fetchall(),
                key=repr,
            )
            for table in TABLES
        }


def fetched(store: ObjectStore, bucket: str, prefix: str, folder: Path) -> Path:
    """All objects that begin with a prefix, as files."""
    listed = store.get(f"{bucket}?list-type=2&prefix={prefix}/").decode()
    for part in listed.split(_KEY)[1:]:
        key = part.partition("<")[0]
        if not key.endswith("/"):
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.get(f"{bucket}/{key}"))
    return folder / prefix


def test_a_cluster_and_an_object_store_make_the_same_tables(
    store: ObjectStore, jars: Sequence[Path], cluster: Cluster, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    write_journal((line for seed in range(4) for line in simulated(seed)), journal)
    files = sorted(journal.iterdir())
    conf = settings(store, jars)

    def add(some: Sequence[Path], number: int) -> dict[str, int]:
        for path in some:
            store.put(f"journals/{path.name}", path.read_bytes())
        made = make("s3a://journals/", "s3a://answers/coterie", cluster.master, conf)
        assert made["fresh"] == len(some)
        assert json.loads(store.get("answers/coterie/latest.json"))["number"] == number
        rows: dict[str, int] = made["rows"]
        return rows

    add(files[:-1], 1)
    # What came later is all that is read the second time.
    counts = add(files[-1:], 2)
    there = fetched(store, "answers", "coterie/tables/000002", tmp_path / "fetched")
    assert list((there / "rebalances").glob("day=*")), "tables are by day"
    expected = make(str(journal), str(tmp_path / "local"), "local[2]", {})
    assert counts == expected["rows"]
    found, wanted = rows(there), rows(tmp_path / "local" / "tables" / "000001")
    assert sum(map(len, wanted.values())) > 0
    # A file has another address here than there.
    for table in (found, wanted):
        table["unread"] = [row[1:] for row in table["unread"]]
    assert found == wanted
