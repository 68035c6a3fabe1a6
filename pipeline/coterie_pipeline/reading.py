"""The lines of files, but for last ones without a line break: those were never finished.

Spark's reader of text does not tell them from others, so they are looked up in the files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from coterie_pipeline.files import literal, reader_of
from coterie_pipeline.packing import compression_of
from coterie_pipeline.steps.arrow import Batches, frame_of, map_batches, no_rows
from coterie_pipeline.steps.parsing import DAMAGED, REST_DAMAGED
from coterie_protocol.journal import LINE_LENGTH_MAX, why_unended

__all__ = ["read_files", "read_text", "unended_lines", "unread_lines"]

#: How much of a file's end is read at first; its last line may begin before that.
_GLANCE_BYTES: Final = 4096

#: How many files are looked at at once: in an object store, each one takes a while.
_AT_ONCE: Final = 16

#: How much of an unpacked text is looked at at a time.
_BLOCK_BYTES: Final = 1024 * 1024

#: Spark hands over no file as a whole that is much larger.
_PACKED_BYTES_MAX: Final = 1024 * 1024 * 1024

_LINES: Final = StructType(
    [StructField(name, StringType()) for name in ("segment", "value", "why")]
)
_TAILS: Final = StructType().add("segment", StringType()).add("tail", BinaryType())


def read_text(spark: SparkSession, segments: Collection[str], **options: str) -> DataFrame:
    """All lines of files, whether they end or not, as `recognized` takes them."""
    if not segments:
        return no_rows(spark, _LINES)
    segment, unknown = F.col("_metadata.file_path"), F.lit(None).cast("string")
    return (
        spark.read.options(lineSep="\n", ignoreMissingFiles="true", **options)
        .text([literal(unquote(path)) for path in segments])
        .select(segment.alias("segment"), "value", unknown.alias("why"))
    )


def unread_lines(spark: SparkSession, rows: Iterable[tuple[str, bytes, str]]) -> DataFrame:
    """Lines that can't be taken into account: the file, the text, and the reason of each."""
    values = [
        {"segment": path, "value": text.decode(errors="replace"), "why": why}
        for path, text, why in rows
    ]
    return frame_of(spark, pa.Table.from_pylist(values, to_arrow_schema(_LINES)), _LINES)


def read_files(
    spark: SparkSession, sizes: Mapping[str, int], damaged: Collection[str] = ()
) -> DataFrame:
    """The lines of files, which have these sizes, as `recognized` takes them.

    Those that are damaged are read as far as that goes, and one more line says so.
    """
    tails = unended_lines(spark, {path: sizes[path] for path in sizes if path not in damaged})
    whole = [path for path in sizes if path not in tails and path not in damaged]
    lines = read_text(spark, whole)
    if damaged:
        rests = unread_lines(spark, ((path, REST_DAMAGED.encode(), DAMAGED) for path in damaged))
        beginnings = read_text(spark, damaged, ignoreCorruptFiles="true")
        lines = lines.unionByName(beginnings).unionByName(rests)
    return lines.unionByName(_marked(read_text(spark, tails), tails)) if tails else lines


def unended_lines(spark: SparkSession, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """The last line of each file in which it has no line break; the files have these sizes."""
    packed = [path for path in sizes if compression_of(path)]
    plain = [path for path in sizes if not compression_of(path)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        tails = pool.map(lambda path: _plain_tail(reader_of(spark, path), sizes[path]), plain)
        found = dict(zip(plain, tails, strict=True))
    small = [path for path in packed if sizes[path] <= _PACKED_BYTES_MAX]
    if small:
        found |= _of_packed(spark, small)
    return {path: tail for path, tail in found.items() if tail}


def _marked(lines: DataFrame, tails: Mapping[str, bytes]) -> DataFrame:
    """The lines of files, with the reason why the last ones do not count."""
    columns = {
        "segment": list(tails),
        "tail": list(tails.values()),
        "torn": list(map(why_unended, tails.values())),
    }
    schema = StructType([*_TAILS.fields]).add("torn", StringType())
    known = F.broadcast(frame_of(lines.sparkSession, pa.table(columns), schema))
    is_last = F.col("value").cast("binary") == F.col("tail")
    found = lines.join(known, "segment").withColumn("is_last", is_last)
    last = found.where("is_last")
    # A line of the same text may have come before, and have ended.
    before = last.groupBy("segment", "value", "why").count().where("count > 1").drop("count")
    ended = found.where("NOT is_last").select(*_LINES.names).unionByName(before)
    return ended.unionByName(last.selectExpr("segment", "value", "torn AS why").distinct())


def _plain_tail(read: Callable[[int, int], bytes], size: int) -> bytes:
    """What follows the last line break; nothing if that is longer than any line."""
    reach = _GLANCE_BYTES
    # A file that can't be read is told of by Spark, and one that is gone is no matter.
    with contextlib.suppress(OSError, Py4JJavaError):
        while reach <= LINE_LENGTH_MAX:
            begin = max(size - reach, 0)
            _, is_found, tail = read(begin, size - begin).rpartition(b"\n")
            if is_found or begin == 0:
                return tail
            reach *= 16
    return b""


def _of_packed(spark: SparkSession, segments: Sequence[str]) -> dict[str, bytes]:
    files = (
        spark.read.format("binaryFile")
        .option("ignoreMissingFiles", "true")
        .load([literal(unquote(path)) for path in segments])
        .select(F.col("_metadata.file_path").alias("segment"), "content")
    )
    rows = map_batches(files, _tails_of_packed, _TAILS).collect()
    return {row.segment: bytes(row.tail) for row in rows}


def _tails_of_packed(batches: Batches) -> Batches:
    for batch in batches:
        segments: list[str] = batch.column(0).to_pylist()
        contents = [content.as_buffer() for content in batch.column(1)]
        tails = [
            _packed_tail(content, compression_of(segment))
            for segment, content in zip(segments, contents, strict=True)
        ]
        yield pa.record_batch([pa.array(segments), pa.array(tails, pa.binary())], _TAILS.names)


def _packed_tail(content: pa.Buffer, compression: str | None) -> bytes:
    """What follows the last line break of a compressed text; nothing if it can't be unpacked."""
    tail = b""
    try:
        with pa.CompressedInputStream(pa.BufferReader(content), compression) as text:
            while block := text.read(_BLOCK_BYTES):
                _, is_found, rest = block.rpartition(b"\n")
                tail = rest if is_found else (tail + rest)[: LINE_LENGTH_MAX + 1]
    except OSError:
        return b""
    return tail if len(tail) <= LINE_LENGTH_MAX else b""
