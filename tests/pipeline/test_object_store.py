"""On a cluster, from and to an object store: the same tables as in one process.

It needs a server that speaks S3, and the file system of Hadoop for it: `moto_server` (of the
package moto) on the path or in MOTO_SERVER, and in HADOOP_AWS_JARS a folder with hadoop-aws and
what it depends on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from tests.interop.kafka_broker import free_port
from tests.live.daemon import HOST, coterie, environment, eventually
from tests.pipeline.cluster import Cluster
from tests.support.journals import simulated, write_journal

_MOTO: Final = os.environ.get("MOTO_SERVER") or shutil.which("moto_server")
_JARS: Final = os.environ.get("HADOOP_AWS_JARS")

pytestmark = [
    pytest.mark.spark_slow,
    pytest.mark.skipif(_MOTO is None, reason="there is no moto_server: set MOTO_SERVER"),
    pytest.mark.skipif(_JARS is None, reason="there is no hadoop-aws: set HADOOP_AWS_JARS"),
]


def put(url: str, data: bytes = b"") -> None:
    """Store an object, or make a bucket."""
    kind = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(url, data, kind, method="PUT")  # noqa: S310  # this machine
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310  # this machine


def listed(store: str, bucket: str) -> str:
    """The names of all objects in a bucket, as XML."""
    url = f"{store}/{bucket}?list-type=2"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # this machine
        return str(answer.read().decode())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """The address of an object store with two empty buckets."""
    port = free_port()
    address = f"http://{HOST}:{port}"
    with (tmp_path / "moto.log").open("wb") as log:
        process = subprocess.Popen(
            [str(_MOTO), "-H", HOST, "-p", str(port)], stdout=log, stderr=log
        )
    try:
        eventually(lambda: _answers(address), "the object store answers", 120)
        for bucket in ("journals", "answers"):
            put(f"{address}/{bucket}")
        yield address
    finally:
        process.kill()
        process.wait()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()  # noqa: S310  # this machine
    except OSError:
        return False
    return True


def settings(store: str) -> list[str]:
    """How Spark reaches the store, and how the cluster reaches the driver."""
    conf = {
        "spark.driver.extraClassPath": f"{_JARS}/*",
        "spark.executor.extraClassPath": f"{_JARS}/*",
        "spark.hadoop.fs.s3a.endpoint": store,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "any",
        "spark.hadoop.fs.s3a.secret.key": "any",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "512m",
    }
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def rows(pipeline: list[str], out: str) -> dict[str, Any]:
    """How many rows each table has that a command makes."""
    command = [coterie(), "pipeline", "run", *pipeline, "-o", out, "--json"]
    done = subprocess.run(command, check=True, env=environment(), stdout=subprocess.PIPE)
    # With other jars in front of its own, Spark's launcher may say something before.
    text = done.stdout.decode()
    found: dict[str, Any] = json.loads(text[text.index("{") :])["rows"]
    return found


def test_a_cluster_and_an_object_store_make_the_same_tables(store: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    write_journal((line for seed in range(4) for line in simulated(seed)), journal)
    for path in journal.iterdir():
        put(f"{store}/journals/{path.name}", path.read_bytes())
    with Cluster(tmp_path, workers=2) as cluster:
        there = ["s3a://journals/", "--master", cluster.master, "--by-day", *settings(store)]
        made = rows(there, "s3a://answers/tables")
    expected = rows([str(journal), "--master", "local[2]"], str(tmp_path / "local"))
    assert made == expected
    assert made["rebalances"] > 0
    # A day's folder, and what says that the tables are whole.
    names = listed(store, "answers")
    assert "tables/tables/000001/rebalances/day=2023-11-14/" in names
    assert "tables/latest.json" in names
    with duckdb.connect() as database:
        count = database.read_parquet(f"{tmp_path}/local/tables/000001/rebalances/*.parquet")
        assert len(count.fetchall()) == expected["rebalances"]
