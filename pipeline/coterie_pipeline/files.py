"""Files by Hadoop's file systems: any path that Spark reads will do."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import SparkSession

__all__ = [
    "Files",
    "Found",
    "exists",
    "is_on_paths",
    "list_files",
    "literal",
    "local_path",
    "reader_of",
    "shown",
]


#: File systems that have no renaming in one step.
_OBJECT_STORES: Final = ("s3a", "s3", "s3n", "gs", "oss", "cosn", "obs")

#: What makes a path a pattern to Spark.
_PATTERN: Final = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was found."""

    #: As Spark writes it: `file:/a/my%20file`.
    path: str
    name: str
    size: int
    changed_ms: int
    #: Whether the file itself was asked for, rather than a folder that it is in.
    is_named: bool


def list_files(spark: SparkSession, path: str) -> list[Found] | None:
    """A file, or all files in a folder and beneath it; None if there is no such path.

    A path that is there is no pattern, whatever characters it has.  Pipes and the like in a folder
    are left out, as they have no end.
    """
    system, place = _place(spark, path)
    statuses = [system.getFileStatus(place)] if system.exists(place) else system.globStatus(place)
    if statuses is None or not len(statuses):
        return None
    return [found for status in statuses for found in _files_of(system, status)]


def exists(spark: SparkSession, path: str) -> bool:
    """Whether a file that was found is still there."""
    system, place = _place(spark, unquote(path))
    return bool(system.exists(place))


def reader_of(spark: SparkSession, path: str) -> Callable[[int, int], bytes]:
    """What reads so many bytes of a file that was found, from a position on."""
    system, place = _place(spark, unquote(path))
    jvm: Any = spark._jvm  # noqa: SLF001

    def read(position: int, count: int) -> bytes:
        if system.getScheme() == "file":
            with Path(place.toUri().getPath()).open("rb") as file:
                file.seek(position)
                return file.read(count)
        stream = system.open(place)
        try:
            stream.seek(position)
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream, count))
        finally:
            stream.close()

    return read


def _place(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm  # noqa: SLF001  # there is no other way to the file system
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark._jsc.hadoopConfiguration()), place  # noqa: SLF001


def literal(path: str) -> str:
    """A path as Spark has to be given it, so that it is no pattern."""
    return _PATTERN.sub(r"\\\g<0>", path)


def is_on_paths(path: str) -> bool:
    """Whether a file that was found is one that any process opens by its path."""
    return path.startswith("file:")


def local_path(path: str) -> Path:
    """The path of such a file."""
    return Path(shown(path))


def shown(path: str) -> str:
    """A path that Spark wrote, as people write it."""
    return unquote(path).removeprefix("file:")


def _files_of(system: Any, status: Any) -> Iterator[Found]:  # noqa: ANN401  # Java objects
    if status.isFile():
        yield _found(status, is_named=True)
        return
    files = system.listFiles(status.getPath(), True)  # noqa: FBT003  # Java has no names for it
    while files.hasNext():
        found = _found(files.next(), is_named=False)
        if not _is_endless(found):
            yield found


def _is_endless(found: Found) -> bool:
    """Whether it is a pipe, a socket or a device, all of which are files to Hadoop."""
    if not is_on_paths(found.path):
        return False
    path = local_path(found.path)
    return path.exists() and not path.is_file()


def _as_in_rows(uri: str) -> str:
    """A file's URI without an authority that is empty."""
    return re.sub("^file://+", "file:/", uri)


def _found(status: Any, *, is_named: bool) -> Found:  # noqa: ANN401  # a Java object
    path = status.getPath()
    return Found(
        _as_in_rows(path.toUri().toString()),
        path.getName(),
        status.getLen(),
        status.getModificationTime(),
        is_named,
    )


class Files:
    """The files of a directory, by Hadoop's file systems: any path that Spark reads will do."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001  # there is no other way to the file system
        self._configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._root = directory.rstrip("/")

    @property
    def can_rename(self) -> bool:
        """Whether a folder gets another name in one step, and without being copied."""
        return self._path("").toUri().getScheme() not in _OBJECT_STORES

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory, which is created if need be; `BlockingIOError` if it is held already.

        The end of a process ends it.  Only directories of this machine can be held.
        """
        place = self.local("")
        if place is None:
            yield
            return
        place.mkdir(parents=True, exist_ok=True)
        directory = os.open(place, os.O_RDONLY)
        try:
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:
                pass  # a file system without such locks, as some that come over a network
            yield
        finally:
            os.close(directory)

    def holds(self, path: str) -> bool:
        """Whether a file that was found is in the directory."""
        root = self._system("").makeQualified(self._path("")).toUri().toString()
        return path.startswith(f"{_as_in_rows(str(root)).rstrip('/')}/")

    def path(self, name: str) -> str:
        """The full path of a name."""
        return f"{self._root}/{name}"

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder."""
        system, path = self._system(folder), self._path(folder)
        if not system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(path))

    def read_json(self, name: str) -> Any:  # noqa: ANN401  # any JSON
        """The content of a file; None if there is no such file.  `ValueError` if it is no JSON."""
        if not self._system(name).exists(self._path(name)):
            return None
        return json.loads(self.read_text(name))

    def read_text(self, name: str) -> str:
        """The content of a file; `OSError` if there is none, `ValueError` if it is no text."""
        if (local := self.local(name)) is not None:
            return local.read_text(encoding="utf-8")
        stream = self._system(name).open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_json(self, name: str, value: object) -> None:
        """Replace a file in one step: a reader finds the old one or the new one."""
        data = bytearray(json.dumps(value, indent=1, sort_keys=True).encode())
        if (local := self.local(name)) is not None:
            _replace(local, data)
            return
        if not self.can_rename:
            # There is no renaming, and an object appears as a whole when it is closed.
            self._write(self._path(name), data)
            return
        fresh = self._path(f"{name}.fresh")
        self._write(fresh, data)
        self._rename(fresh, self._path(name))

    def _write(self, path: Any, data: bytearray) -> None:  # noqa: ANN401  # a Java object
        stream = path.getFileSystem(self._configuration).create(path, True)  # noqa: FBT003  # Java has no names for it
        try:
            stream.write(data)
        finally:
            stream.close()

    def _rename(self, fresh: Any, path: Any) -> None:  # noqa: ANN401  # Java objects
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(fresh.toUri(), self._configuration)
        options = self._jvm.java.lang.reflect.Array.newInstance(
            self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename"), 1
        )
        overwrite = self._jvm.java.lang.Class.forName(
            "org.apache.hadoop.fs.Options$Rename"
        ).getEnumConstants()[1]
        options[0] = overwrite
        context.rename(fresh, path, options)

    def size(self, folder: str) -> int:
        """How many bytes there are in a folder and beneath it."""
        system, path = self._system(folder), self._path(folder)
        return int(system.getContentSummary(path).getLength()) if system.exists(path) else 0

    def replace(self, name: str, place: str) -> None:
        """Put a folder in the place of another one, if there is one."""
        self.delete(place)
        if self._system(name).exists(self._path(name)):
            self._system(name).rename(self._path(name), self._path(place))

    def link(self, name: str, place: str) -> None:
        """Have a file at another place as well, which costs no copy where that is possible."""
        old, new = self.local(name), self.local(place)
        if old is None or new is None:
            system, util = self._system(name), self._jvm.org.apache.hadoop.fs.FileUtil
            paths = system, self._path(name), system, self._path(place)
            util.copy(*paths, False, self._configuration)  # noqa: FBT003
            return
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.hardlink_to(old)
        except OSError:  # not every file system has these
            shutil.copy2(old, new)

    def delete(self, name: str) -> None:
        """Delete a file or a folder, if it is there."""
        self._system(name).delete(self._path(name), True)  # noqa: FBT003

    def local(self, name: str) -> Path | None:
        """The path of a file of this machine.

        Hadoop keeps a checksum beside each of those, which a killed process, or an operator who
        puts an older file back, leaves as it was: then the file can't be read any more.
        """
        if self._system(name).getScheme() != "file":
            return None
        return Path(self._path(name).toUri().getPath())

    def _path(self, name: str) -> Any:  # noqa: ANN401  # a Java object
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name))

    def _system(self, name: str) -> Any:  # noqa: ANN401  # a Java object
        return self._path(name).getFileSystem(self._configuration)


def _replace(path: Path, data: bytearray) -> None:
    fresh = path.with_name(f"{path.name}.fresh")
    path.parent.mkdir(parents=True, exist_ok=True)
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # of a file that Hadoop wrote
