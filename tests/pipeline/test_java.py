"""Finding a Java for Spark."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.java import NoJavaError, java_home


def fake_java(home: Path, version: str) -> Path:
    """A Java that says which one it is, and what it was asked."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then\n'
        f'  echo \'openjdk version "{version}" 2026-01-01\' >&2\nelse\n  echo "$@"\nfi\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    return monkeypatch


def asked(home: Path, *arguments: str) -> str:
    """What the Java of a home is started with."""
    with_tools = {**os.environ, "PATH": os.defpath}
    shown = subprocess.run(
        [home / "bin" / "java", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=with_tools,
    )
    return shown.stdout.strip()


def test_java_home_is_taken_first(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "it's chosen", "21.0.2")
    nothing.setenv("JAVA_HOME", str(chosen))
    nothing.setenv("PATH", str(fake_java(tmp_path / "other", "17") / "bin"))
    assert asked(java_home(tmp_path / "cache"), "-cp", "a b", "Main") == "-cp a b Main"


def test_request_for_the_missing_module_is_passed_over(
    nothing: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "17.0.1")))
    home = java_home(tmp_path / "cache")
    assert asked(home, "-Xmx1g", "--add-modules=jdk.incubator.vector", "x") == "-Xmx1g x"


def test_answer_can_be_the_next_java_home(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A second session in the same process does not wrap what is wrapped.
    nothing.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "17.0.1")))
    first = java_home(tmp_path / "cache")
    nothing.setenv("JAVA_HOME", str(first))
    assert java_home(tmp_path / "cache") == first


def test_java_on_the_path_serves(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing.setenv("PATH", str(fake_java(tmp_path / "java", "17.0.1") / "bin"))
    assert asked(java_home(tmp_path / "cache"), "hello") == "hello"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_old_java_that_was_chosen_is_an_error(
    nothing: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    # It was set on purpose, so nothing else is taken in its place.
    nothing.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", version)))
    with pytest.raises(NoJavaError, match=r"Java 17 or newer, and JAVA_HOME=.* has Java \d+:"):
        java_home(tmp_path / "cache")


def test_home_without_java_is_an_error(nothing: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing.setenv("JAVA_HOME", str(tmp_path / "removed"))
    with pytest.raises(NoJavaError, match="has none: set JAVA_HOME"):
        java_home(tmp_path / "cache")


@pytest.mark.usefixtures("nothing")
def test_machine_without_java_gets_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoJavaError, match=r"none was found: set JAVA_HOME .*coterie\[java\]"):
        java_home(tmp_path / "cache")


def test_java_from_pypi_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Where there is none, the one that the extra brings is started as Spark needs it.
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    (tools / "sh").symlink_to(shell)
    monkeypatch.setenv("PATH", str(tools))
    home = java_home(tmp_path / "cache")
    told = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in told.stderr


def test_spark_does_not_look_up_this_machines_name(spark: SparkSession) -> None:
    """Not every machine is known by its own name, and Spark then fails when it starts."""
    java = spark.sparkContext._jvm  # noqa: SLF001  # there is no other way to ask Spark's own classes
    assert java is not None
    assert java.org.apache.spark.util.Utils.localCanonicalHostName() in ("localhost", "127.0.0.1")


@pytest.mark.usefixtures("spark")
def test_spark_leaves_interrupts_as_they_were() -> None:
    """Spark's own handler asks Java in the middle of its answers."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
