"""`coterie pipeline import-kafka`: what it says, and how it ends."""

import json
import subprocess
from pathlib import Path

from tests.live.daemon import coterie, environment
from tests.pipeline.kafka_logs.broker_logs import OldLog, first_generation, member


def import_kafka(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [coterie(), "pipeline", "import-kafka", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(COLUMNS="300"),
    )


def broker_log(folder: Path) -> Path:
    """What a broker logged of a group's first rebalance, and a line that nobody knows."""
    log = OldLog()
    first_generation(log, member("a"), member("b"))
    log.say(2, "The coordinator danced with group g")
    return log.write(folder / "server.log")


def test_import_says_what_it_understood(tmp_path: Path) -> None:
    """How much there is, from when until when, and which lines of coordinators meant nothing."""
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "journal")
    assert done.returncode == 0, done.stderr
    assert "about 1 group, 2026-03-01 12:00:00 UTC to" in done.stdout
    assert "1 rebalance, 1 of them completed; who was given what is known of 0." in done.stdout
    assert "5 of 6 lines of coordinators were understood" in done.stdout
    assert "not understood: " in done.stderr
    assert "danced" in done.stderr


def test_journal_that_was_made_is_whole(tmp_path: Path) -> None:
    """Coterie's own commands read it."""
    journal = tmp_path / "journal"
    import_kafka(broker_log(tmp_path), "--out", journal)
    done = subprocess.run(
        [coterie(), "journal", "verify", str(journal)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Whole" in done.stdout


def test_summary_is_there_for_programs(tmp_path: Path) -> None:
    """The same numbers as JSON."""
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "journal", "--json")
    summary = json.loads(done.stdout)
    assert (summary["rebalances"], summary["completed"], summary["groups"]) == (1, 1, 1)


def test_zone_shifts_the_times(tmp_path: Path) -> None:
    """Logs have no zone; the one that is given is taken."""
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "j", "--zone", "Asia/Tokyo")
    assert "2026-03-01 03:00:00 UTC" in done.stdout


def test_unknown_zone_is_refused(tmp_path: Path) -> None:
    """With a name that would do."""
    done = import_kafka(broker_log(tmp_path), "--out", tmp_path / "j", "--zone", "Mars/Olympus")
    assert done.returncode == 2
    expected = "There is no time zone 'Mars/Olympus': give a name such as Europe/Berlin.\n"
    assert done.stderr == expected


def test_logs_without_coordinators_are_told(tmp_path: Path) -> None:
    """One sentence says what is missing, and where it would be."""
    (tmp_path / "other.log").write_text("[2026-03-01 12:00:00,000] INFO hello (kafka.Kafka)\n")
    done = import_kafka(tmp_path / "other.log", "--out", tmp_path / "j")
    assert done.returncode == 1
    assert "brokers write them into server.log" in done.stderr
    assert "Traceback" not in done.stderr
