"""`coterie console`: what it says, what it refuses, and how it ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from coterie_cli.commands.console import say_what_was_read
from coterie_cli.main import app
from coterie_server.archive import Journals
from tests.live.daemon import coterie, environment
from tests.pipeline.kafka_logs.broker_logs import OldLog, first_generation, member
from tests.support.processes import killed_on_error
from tests.support.told_journal import tell_an_hour

HTTP = ("--http", "127.0.0.1:0")


def console(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["console", *map(str, arguments)])


@contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], list[str], str]]:
    """The command, what it said until it was ready, and where it answers."""
    started = subprocess.Popen(
        [coterie(), "console", *map(str, arguments), *HTTP],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    with killed_on_error(started) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("The console is at "):
                break
        try:
            yield process, said, said[-1].split()[4] if said else ""
        finally:
            process.kill()


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # our own
        text: str = answer.read().decode()
    return text


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    tell_an_hour(tmp_path)
    with running(tmp_path) as (process, said, url):
        assert said[0].startswith("29 lines in 2 files of nodes 1, 2, about 1 group, ")
        assert "<title>Coterie</title>" in asked(url)
        assert json.loads(asked(f"{url}v1/console"))["mode"] == "journal"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors == ""


def test_nodes_whose_numbers_are_used_twice_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_an_hour(tmp_path)
    found = Journals.read([tmp_path], lambda _: None)
    found.scan.mixed |= {"2", "1"}
    say_what_was_read(found)
    found.close()
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in said] == [
        "Different lines of node 1 have the same numbers",
        "Different lines of node 2 have the same numbers",
    ]


@pytest.mark.slow
def test_what_was_imported_from_kafka_s_brokers_is_shown(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, member("a"), member("b"))
    path = log.write(tmp_path / "server.log")
    journal = tmp_path / "journal"
    subprocess.run(
        [coterie(), "pipeline", "import-kafka", str(path), "--out", str(journal)],
        check=True,
        capture_output=True,
    )
    with running(journal) as (_, _, url):
        (group,) = json.loads(asked(f"{url}v1/groups"))["groups"]
        past = json.loads(asked(f"{url}v1/groups/{group['group']}/past"))
        assert past["rebalances"][0]["outcome"] == "completed"
        assert past["generations"][-1]["complete"] is False


@pytest.mark.slow
def test_lines_that_cant_be_read_are_named(tmp_path: Path) -> None:
    (path, _) = tell_an_hour(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write("<html>\n" * 7 + '{"v":1')
    with running(tmp_path) as (process, _, _):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    first, *_, last = errors.splitlines()
    assert first.startswith(f"not read: {path}, line ")
    assert last == "not read: 3 more lines"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    done = console(tmp_path / "nowhere")
    assert done.exit_code == 1
    assert f"There is no {tmp_path / 'nowhere'}. Give a data directory" in done.stderr


def test_a_folder_without_a_journal(tmp_path: Path) -> None:
    done = console(tmp_path)
    assert done.exit_code == 1
    assert f"There is no journal in {tmp_path}" in done.stderr


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal").mkdir()
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("journal"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    done = console(tmp_path)
    assert done.exit_code == 1
    assert done.stderr == f"{tmp_path / 'journal'} can't be read: Permission denied.\n"


def test_an_empty_journal(tmp_path: Path) -> None:
    (tmp_path / "journal-1-0000000000000001.jsonl").touch()
    done = console(tmp_path)
    assert done.exit_code == 1
    assert f"There is no line of a journal in {tmp_path}." in done.stderr


def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    tell_an_hour(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = console(tmp_path, "--http", f"127.0.0.1:{port}")
    assert done.exit_code == 1
    assert done.stderr == (
        f"can't answer at 127.0.0.1:{port}: Address already in use."
        " Choose another port with --http.\n"
    )


def test_what_it_says_may_be_cut_off(tmp_path: Path) -> None:
    """As every command ends whose output goes to `head`: without a word, and with click's code."""
    tell_an_hour(tmp_path)
    started = subprocess.Popen(
        [coterie(), "console", tmp_path, *HTTP],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with killed_on_error(started) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("29 lines in 2 files ")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 1


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("9081", "--http: expected HOST:PORT, got '9081'."),
        ("0.0.0.0:9081", "--http: 0.0.0.0 is not an address of this machine alone"),
    ],
)
def test_an_address_that_is_not_for_this_machine_alone(
    tmp_path: Path, address: str, said: str
) -> None:
    done = console(tmp_path, "--http", address)
    assert done.exit_code == 2
    assert said in done.stderr
