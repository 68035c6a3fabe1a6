"""`coterie serve` that can't do what it is asked for: one sentence that says why and what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.options import Variable
from tests.live.daemon import HOST, Daemon, coterie, environment

_TIMEOUT_S: Final = 60.0


# -- refused for what they say -----------------------------------------------------------------

#: By what is wrong: the arguments, and what the sentence has to name.
ARGUMENTS: Final = {
    "unknown setting": ("--set group.max.sise=5", "the nearest known one is group.max.size"),
    "bad value": ("--set group.max.size=many", "group.max.size = 'many' (from --set): expected"),
    "value out of bounds": ("--set group.max.size=0", "expected a whole number of members from 1"),
    "no value": ("--set group.max.size", "--set group.max.size: expected KEY=VALUE"),
    "bad value in a file": ("--config config.toml", "(in config.toml): expected a whole number"),
    "missing file": ("--config nowhere.toml", "nowhere.toml: No such file or directory"),
    "no port": ("--listen 9092", "--listen: expected HOST:PORT, got '9092'"),
    "no such port": (
        "--http here:99999",
        "--http: expected a port from 0 to 65535, got 'here:99999'",
    ),
    "no listener": ("--listen=", "There is no listener: say where to serve clients, as HOST:PORT."),
    "nothing but commas": ("--listen ,", "There is no listener"),
    "star": ("--listen *:1", "expected HOST:PORT, and 0.0.0.0 for every address of this machine"),
    "no brackets": ("--listen ::1:1", "--listen: expected IPv6 addresses in brackets, as [::1]:"),
    "half a bracket": ("--listen [127.0.0.1:1", "--listen: expected HOST:PORT, got '[127.0.0.1:1'"),
    "URL": ("--http http://here:1", "--http: expected HOST:PORT, got 'http://here:1'"),
    "empty HTTP": ("--http=", "--http: expected HOST:PORT, got ''"),
    "other digits": ("--listen here:\u0663", "--listen: expected HOST:PORT, got 'here:\u0663'"),
    "thousands of digits": (f"--listen here:{'1' * 5000}", "--listen: expected HOST:PORT, got"),
    "endless host": (f"--advertise {'h' * 40_000}:1", "--advertise: expected HOST:PORT, got"),
    "listeners in one place": (
        "--listen here:1 --listen OUTSIDE://here:1",
        "2 listeners have the address here:1: give each its own.",
    ),
    "HTTP in a listener's place": (
        "--listen here:1 --http here:1",
        "--http: here:1 is where clients are served; choose another address",
    ),
    "no directory": ("--data-dir=", "--data-dir must not be empty"),
    "no store": ("--store=", "--store must not be empty"),
    "setting in capitals": ("--set GROUP.MAX.SIZE=5", "the nearest known one is group.max.size"),
    "setting without a name": ("--set =5", "unknown setting '' (from --set)"),
    "empty setting": ("--set=", "--set '': expected KEY=VALUE"),
    "hostile setting": ("--set \x1b[31mx=1", r"unknown setting '\x1b[31mx' (from --set)"),
    "partitions in other digits": ("--topic a:\u0663", "--topic: expected NAME:PARTITIONS"),
    "endless partitions": (f"--topic a:{'9' * 5000}", "--topic: expected NAME:PARTITIONS"),
    "every address": ("--listen 0.0.0.0:0", "--advertise HOST:PORT"),
    "no name of a listener": ("--listen ?://here:1", "--listen: expected a listener's name"),
    "two listeners without a name": (
        "--listen here:1 --listen here:2",
        "2 listeners have no name: name all but one, as in OUTSIDE://here:2.",
    ),
    "no such listener": (
        "--listen here:1 --listen OUTSIDE://here:2 --advertise OUTSDE://there:2",
        "OUTSDE://there:2 is advertised for a listener that is not there",
    ),
    "HTTP advertised, but off": (
        "--http off --advertise-http there:1",
        "--advertise-http: there:1 can't be where HTTP is found, as --http is off",
    ),
    "HTTP advertised for no listener": (
        "--listen here:1 --advertise-http OUTSIDE://there:1",
        "OUTSIDE://there:1 is advertised for a listener that is not there",
    ),
    "topic without partitions": (
        "--topic orders",
        "--topic: expected NAME:PARTITIONS, got 'orders'",
    ),
    "password for all to see": (
        "--store postgresql://ann:s3cret@db/x",
        "--store: postgresql://ann@db/x was given with a password, which others can read",
    ),
    "topic given twice": ("--topic a:1 --topic a:2", "--topic: 'a' is given twice"),
}


@pytest.mark.parametrize(("arguments", "named"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_wrong_argument_is_refused_in_a_sentence(
    arguments: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text("group.max.size = 'many'\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["serve", *arguments.split()])
    assert (result.exit_code, result.stdout) == (2, "")
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("coterie: ")
    assert named in sentence
    assert not Path("coterie-data").exists()


#: The variables of its addresses, each with one that is none.
ADDRESSES: Final = {
    Variable.LISTEN: "9092",
    Variable.ADVERTISE: "nowhere",
    Variable.ADVERTISE_HTTP: "nowhere",
    Variable.HTTP_LISTEN: "here:99999",
}


@pytest.mark.parametrize(("variable", "value"), ADDRESSES.items())
def test_wrong_variable_is_refused_by_its_name(
    variable: Variable, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["serve"], env={variable: value})
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"coterie: {variable}: expected ")
    assert repr(value) in result.stderr


# -- refused for what they run into ------------------------------------------------------------

CIRCUMSTANCES: Final = {
    "port in use": (
        "--listen TAKEN://{taken}",
        "can't listen on TAKEN://{taken}: Address already in use. Choose another address.",
    ),
    "port in use for HTTP": ("--http {taken}", "can't answer HTTP on {taken}: Address already in"),
    "data directory in use": ("--data-dir {running}", "is in use by process {pid}"),
    "data directory is a file": ("--data-dir {file}", "can't keep data in {file}: File exists"),
    "store without its colon": ("--store memory", "memory is not a store: expected memory:"),
    "store with a mistake in it": (
        "--store postgresql//ann@db/groups",
        "is not a store: expected postgresql://USER@HOST/DATABASE",
    ),
    "damaged store": ("--store sqlite:{damaged}", "{damaged} is damaged"),
    "store in use": (
        "--store sqlite:{running}/coterie.db",
        "coterie.db is in use as node-1 by process {pid}. Stop that, or give this process",
    ),
    "shrinking topic": (
        "--data-dir {grown} --topic orders:2",
        "'orders' has 5 partitions and can't shrink to 2",
    ),
    "topic with no partition": ("--topic orders:0", "'orders' can't have 0 partitions"),
}


class Place:
    """What the commands run into: files, and a daemon that is running."""

    def __init__(self, folder: Path, running: Daemon, grown: Path) -> None:
        """Prepare files."""
        self._folder = folder
        file, damaged = folder / "a-file", folder / "damaged.db"
        file.write_text("no folder", encoding="utf-8")
        damaged.write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
        self._names = {
            "taken": running.address,
            "running": running.data_dir,
            "pid": running.process.pid,
            "grown": grown,
            "file": file,
            "damaged": damaged,
        }

    def fill(self, text: str) -> str:
        """A text with the names of what there is."""
        return text.format(**self._names)

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the command of a circumstance."""
        words = self.fill(CIRCUMSTANCES[name][0]).split()
        # Of an option that is given twice the last one counts.
        data_dir = self._folder / name.replace(" ", "-")
        usual = ["--listen", f"{HOST}:0", "--http", "off", "--data-dir", str(data_dir)]
        return subprocess.run(
            [coterie(), "serve", *usual, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
            env=environment(),
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Give a place where a daemon is running, and one was that had a topic of five partitions."""
    folder = tmp_path_factory.mktemp("place")
    running = Daemon(folder / "running", topics={"orders": 5})
    with running:
        pass
    grown = running.data_dir.rename(folder / "grown")
    with running:
        yield Place(folder, running, grown)


@pytest.fixture(scope="module")
def endings(place: Place) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run all commands, a few at a time."""
    with ThreadPoolExecutor(3) as pool:
        return dict(zip(CIRCUMSTANCES, pool.map(place.run, CIRCUMSTANCES), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_failed_start_is_explained_in_a_sentence(
    name: str, place: Place, endings: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    ended = endings[name]
    assert (ended.returncode, ended.stdout) == (1, "")
    *logged, sentence = ended.stderr.splitlines()
    assert all(line.startswith("{") for line in logged)
    assert sentence.startswith("coterie: ")
    assert place.fill(CIRCUMSTANCES[name][1]) in sentence


@pytest.mark.slow
@pytest.mark.parametrize("files", [8, 20, 64, 100])
def test_too_few_open_files_are_told_in_a_sentence(files: int, tmp_path: Path) -> None:
    command = f'ulimit -n {files}; exec "$0" serve --listen {HOST}:0 --http off'
    ended = subprocess.run(
        ["/bin/sh", "-c", command, coterie()],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
        env=environment(),
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"coterie: this process may have {files} open files, and needs 128 at least. Raise the"
        " limit, as with `ulimit -n 4096`.\n"
    )
