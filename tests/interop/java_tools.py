"""Java programs for tests: Kafka's own tools, and single-file programs that use its client.

Everything comes from the artefacts that Maven resolves for ``java/pom.xml``, which is also the one
place where the Kafka version is chosen. The jars stay in Maven's own cache; the class path and
compiled programs are kept under ``build/interop``.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = [
    "CONSUMER_GROUPS",
    "JavaProgramError",
    "java_classpath",
    "java_command",
    "java_source_command",
    "kafka_tool",
    "run_java_source",
    "toolchain_problem",
]

CONSUMER_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
"""Main class of ``kafka-consumer-groups``."""

_POM: Final = Path(__file__).with_name("java") / "pom.xml"
_BUILD_DIR: Final = Path(__file__).parents[2] / "build" / "interop"

# Short-lived JVMs on small machines: the cheap collector and the quick compiler start sooner.
_JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Xmx256m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

# The first Maven run downloads about 45 MB.
_MAVEN_TIMEOUT_S: Final = 600.0
_TOOL_TIMEOUT_S: Final = 60.0


class JavaProgramError(RuntimeError):
    """A Java program, Maven or the compiler failed; the message carries what it printed."""


def toolchain_problem(*, compiler: bool = False) -> str | None:
    """Say what is missing to run Kafka here, or return None.

    ``compiler=True`` asks for ``javac`` as well, which ``run_java_source`` needs and a broker does
    not.
    """
    needed = ("java", "mvn", "javac") if compiler else ("java", "mvn")
    missing = [tool for tool in needed if shutil.which(tool) is None]
    return f"a real Kafka needs {' and '.join(missing)} on the PATH" if missing else None


def java_classpath() -> str:
    """Return the class path with Kafka, its tools and its client, resolved by Maven when needed.

    The answer is kept under ``build/interop`` until ``pom.xml`` changes or a jar disappears.
    """
    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]
    cached = _BUILD_DIR / f"classpath-{digest}.txt"
    if cached.exists():
        classpath = cached.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in classpath.split(os.pathsep)):
            return classpath
    _BUILD_DIR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_BUILD_DIR) as scratch:
        # Moved into place when complete: test processes may run side by side.
        resolved = Path(scratch) / "classpath.txt"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={resolved}"]
        maven = ["mvn", "--quiet", "--batch-mode", "--file", str(_POM), *goal]
        _run(maven, timeout_s=_MAVEN_TIMEOUT_S)
        classpath = resolved.read_text(encoding="utf-8").strip()
        resolved.write_text(classpath, encoding="utf-8")
        resolved.replace(cached)
    return classpath


def java_command(
    main_class: str,
    *args: str,
    classes: Path | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """Return the command line that runs a main class of Kafka's class path.

    ``classes`` is a folder of compiled classes to put in front of it; ``options`` are for the Java
    virtual machine and win over the usual ones. Logs go to stderr from WARN on, stdout is the
    program's own.
    """
    classpath = java_classpath() if classes is None else f"{classes}{os.pathsep}{java_classpath()}"
    # Of two values for one option Java takes the last.
    return ["java", *_JVM_OPTIONS, *options, "-cp", classpath, main_class, *args]


def kafka_tool(
    main_class: str,
    *args: str,
    stdin: str | None = None,
    timeout_s: float = _TOOL_TIMEOUT_S,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own command line tools to its end and return what it printed.

    Raises ``JavaProgramError`` when it fails or overruns; ``check=False`` allows it to fail.
    """
    return _run(java_command(main_class, *args), stdin=stdin, timeout_s=timeout_s, check=check)


def run_java_source(
    source: Path,
    *args: str,
    stdin: str | None = None,
    timeout_s: float = _TOOL_TIMEOUT_S,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Compile a single-file Java program if needed, run it to its end, return what it printed.

    Raises ``JavaProgramError`` when it does not compile, fails or overruns; ``check=False`` allows
    the program to fail. For a program that has to stay alive beside the test, start
    ``java_source_command`` with ``subprocess``.
    """
    command = java_source_command(source, *args)
    return _run(command, stdin=stdin, timeout_s=timeout_s, check=check)


def java_source_command(source: Path, *args: str) -> list[str]:
    """Compile a single-file Java program if needed and return the command line that runs it.

    The main class has the file's name and no package.
    """
    return java_command(source.stem, *args, classes=_compiled(source))


def _compiled(source: Path) -> Path:
    """Return the folder with the classes of ``source``; its name tells text and class path."""
    classpath = java_classpath()
    digest = hashlib.sha256(source.read_bytes() + classpath.encode()).hexdigest()[:16]
    classes = _BUILD_DIR / "classes" / f"{source.stem}-{digest}"
    if classes.is_dir():
        return classes
    classes.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_BUILD_DIR) as scratch:
        output = Path(scratch) / "classes"
        output.mkdir()
        javac = ["javac", "-encoding", "UTF-8", "-proc:none", "-cp", classpath, "-d", str(output)]
        _run([*javac, str(source)], timeout_s=_TOOL_TIMEOUT_S)
        # Fails only when another process was quicker, with the same classes.
        with contextlib.suppress(OSError):
            output.rename(classes)
    return classes


def _run(
    command: list[str],
    *,
    stdin: str | None = None,
    timeout_s: float,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    name = _program_name(command)
    try:
        result = subprocess.run(
            command,
            # Without input the program gets an empty stdin, never the terminal of the test run.
            input=stdin or "",
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        message = f"{name} still ran after {timeout_s:g} s\n{_as_text(expired.output)}"
        raise JavaProgramError(message + _as_text(expired.stderr)) from expired
    if check and result.returncode != 0:
        message = f"{name} exited with {result.returncode}\n{result.stdout}{result.stderr}"
        raise JavaProgramError(message)
    return result


def _program_name(command: list[str]) -> str:
    """Return the command without its class path, which would bury everything else."""
    start = command.index("-cp") + 2 if "-cp" in command else 0
    return " ".join([command[0], *command[start:]] if start else command)


def _as_text(output: str | bytes | None) -> str:
    # On a time-out subprocess hands over the raw bytes, whatever encoding was asked for.
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
