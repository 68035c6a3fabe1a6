"""`coterie pipeline import-kafka`: what it says, and how it ends."""

import json
import subprocess
from pathlib import Path

from tests.live.daemon import coterie, environment
from tests.pipeline.kafka_logs.broker_logs import OldLog, first_generation, member


def import_kafka(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [coterie(), "pipeline", "import-kafka", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(COLUMNS="300"),
    )


def broker_log(folder: Path) -> Path:
    """A log with a group's first rebalance, and a line of an unknown form."""
    log = OldLog()
    first_generation(log, member("a"), member("b"))
    log.say(2, "The coordinator danced with group g")
    return log.write(folder / "server.log")


def test_import_says_what_it_understood_and_what_not(tmp_path: Path) -> None:
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "journal")
    assert done.returncode == 0, done.stderr
    assert "about 1 group, 2026-03-01 12:00:00 UTC to" in done.stdout
    assert "1 rebalance, 1 of them completed; who was given what is known of 0." in done.stdout
    assert "5 of 6 lines of coordinators were understood" in done.stdout
    assert "not understood: " in done.stderr
    assert "danced" in done.stderr


def test_imported_journal_is_whole(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    import_kafka(broker_log(tmp_path), "--out", journal)
    done = subprocess.run(
        [coterie(), "journal", "verify", str(journal)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Whole" in done.stdout


def test_summary_as_json(tmp_path: Path) -> None:
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "journal", "--json")
    summary = json.loads(done.stdout)
    assert (summary["rebalances"], summary["completed"], summary["groups"]) == (1, 1, 1)


def test_times_are_read_in_the_zone_that_is_given(tmp_path: Path) -> None:
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "j", "--zone", "Asia/Tokyo")
    assert "2026-03-01 03:00:00 UTC" in done.stdout


def test_unknown_zone_is_refused_with_an_example(tmp_path: Path) -> None:
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "j", "--zone", "Mars/Olympus")
    assert done.returncode == 2
    expected = "There is no time zone 'Mars/Olympus': give a name such as Europe/Berlin.\n"
    assert done.stderr == expected


def test_logs_without_coordinators_are_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text("[2026-03-01 12:00:00,000] INFO hello (kafka.Kafka)\n")
    done = import_kafka(tmp_path / "other.log", "--out", tmp_path / "j")
    assert done.returncode == 1
    assert "brokers write them into server.log" in done.stderr
    assert "Traceback" not in done.stderr
