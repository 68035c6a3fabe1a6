"""Small files beside the tables, on whatever file system Spark can reach."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["Files"]


class Files:
    """The files of a directory, by Hadoop's own means, so that any path serves that Spark reads."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001  # there is no other way to the file system
        self._configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._root = directory.rstrip("/")

    def path(self, name: str) -> str:
        """Where something of that name is."""
        return f"{self._root}/{name}"

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""
        system, path = self._system(folder), self._path(folder)
        if not system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(path))

    def read_json(self, name: str) -> Any:  # noqa: ANN401  # any JSON
        """What a file says; None if there is no such file."""
        system, path = self._system(name), self._path(name)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return json.loads(text)

    def write_json(self, name: str, value: object) -> None:
        """Write a file as a whole: a reader finds the old one or the new one."""
        fresh = self._path(f"{name}.fresh")
        stream = self._system(name).create(fresh, True)  # noqa: FBT003  # Java has no names for it
        try:
            stream.write(bytearray(json.dumps(value, indent=1, sort_keys=True).encode()))
        finally:
            stream.close()
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(fresh.toUri(), self._configuration)
        options = self._jvm.java.lang.reflect.Array.newInstance(
            self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename"), 1
        )
        overwrite = self._jvm.java.lang.Class.forName(
            "org.apache.hadoop.fs.Options$Rename"
        ).getEnumConstants()[1]
        options[0] = overwrite
        context.rename(fresh, self._path(name), options)

    def delete(self, name: str) -> None:
        """Delete a file or a folder, if it is there."""
        self._system(name).delete(self._path(name), True)  # noqa: FBT003

    def _path(self, name: str) -> Any:  # noqa: ANN401  # a Java object
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name))

    def _system(self, name: str) -> Any:  # noqa: ANN401  # a Java object
        return self._path(name).getFileSystem(self._configuration)
