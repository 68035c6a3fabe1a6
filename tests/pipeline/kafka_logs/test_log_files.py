"""Log files as they lie about: rotated, packed, doubled, of several brokers, in local time."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from coterie_pipeline.kafka_logs import KafkaLogsError, import_logs
from coterie_protocol.journal import RebalanceStarted
from tests.pipeline.kafka_logs.broker_logs import (
    OldLog,
    events,
    first_generation,
    journal,
    kinds,
    member,
    ms,
    run,
)

A, B = member("a"), member("b")


def _join(log: OldLog, second: float, generation: int, group: str = "g") -> None:
    log.preparing(second, generation, f"Adding new member {A} with group instance id None", group)


def test_rotated_and_packed_files_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    early, middle, late = OldLog(), OldLog(), OldLog()
    for hour, log in enumerate((early, middle, late)):
        _join(log, hour * 3600, hour)
    late.write(logs / "server.log")
    early.write(logs / "server.log.2026-03-01-12.gz")
    middle.write(logs / "server.log.2026-03-01-13")
    counts = import_logs([logs], tmp_path / "out")
    lines = events(journal(tmp_path / "out"), RebalanceStarted)
    assert [event.generation for event in lines] == [0, 1, 2]
    assert counts.files == 3


def test_file_given_twice_counts_once(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A)
    first = log.write(tmp_path / "server.log")
    copy = log.write(tmp_path / "copy.log.gz")
    counts = import_logs([first, copy, first], tmp_path / "out")
    assert (counts.files, counts.rebalances) == (2, 1)


def test_brokers_have_journals_of_their_own_without_gaps(tmp_path: Path) -> None:
    # Lines of each are in the order of time and numbered from 1 on.
    one, two = OldLog(node=1), OldLog(node=2)
    for second in range(4):
        _join(one if second % 2 else two, second, second, f"g{second}")
    counts, lines = run(tmp_path, one, two)
    assert counts.written == {"kafka-1": 4, "kafka-2": 4}
    for node in ("kafka-1", "kafka-2"):
        mine = [line for line in lines if line.node == node]
        assert [line.seq for line in mine] == [1, 2, 3, 4]
        assert [line.ts for line in mine] == sorted(line.ts for line in mine)


def test_file_with_lines_of_two_brokers_is_taken_apart(tmp_path: Path) -> None:
    one, two = OldLog(node=1), OldLog(node=2)
    _join(one, 0, 0, "g")
    _join(two, 1, 0, "h")
    one.lines += two.lines
    counts, _ = run(tmp_path, one)
    assert counts.written == {"kafka-1": 2, "kafka-2": 2}


def test_cluster_can_have_a_name(tmp_path: Path) -> None:
    log = OldLog()
    _join(log, 0, 0)
    counts, _ = run(tmp_path, log, cluster="berlin")
    assert counts.written == {"berlin-1": 2}


def test_cluster_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaLogsError, match="can't be called"):
        import_logs([tmp_path], tmp_path / "out", cluster="a/b")


def test_stack_traces_and_other_lines_are_skipped(tmp_path: Path) -> None:
    log = OldLog()
    log.raw(0, "ERROR [KafkaApi-1] Unexpected error (kafka.server.KafkaApis)")
    log.lines += ["java.lang.IllegalStateException: [GroupCoordinator 1]: Shutting down."]
    log.lines += ["\tat kafka.coordinator.group.GroupCoordinator.doSync(GroupCoordinator.scala:5)"]
    first_generation(log, A)
    counts, lines = run(tmp_path, log)
    assert counts.lines - counts.coordinator_lines == 3
    assert "node_stopped" not in kinds(lines)


def test_line_that_is_not_understood_is_counted_and_shown(tmp_path: Path) -> None:
    log = OldLog()
    log.say(0, "The moon is full")
    first_generation(log, A)
    counts, _ = run(tmp_path, log)
    assert counts.coordinator_lines - counts.understood == 1
    assert counts.not_understood == ("The moon is full",)


def test_debug_lines_are_skipped(tmp_path: Path) -> None:
    log = OldLog()
    log.raw(0, "DEBUG [GroupCoordinator 1]: Member b has already been removed from the group.")
    first_generation(log, A)
    counts, _ = run(tmp_path, log)
    assert counts.coordinator_lines == counts.understood


def test_what_stands_in_front_of_a_line_does_no_harm(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A)
    log.lines = [f"kafka-1  | {line}" for line in log.lines]
    counts, lines = run(tmp_path, log)
    assert (counts.rebalances, lines[0].ts) == (1, ms(0))


def test_thread_behind_a_line_does_no_harm(tmp_path: Path) -> None:
    # Strimzi has its name there, and no brackets around the time.
    log = OldLog()
    first_generation(log, A)
    log.lines = [f"{line[1:24]}{line[25:]} [executor-Rebalance]" for line in log.lines]
    counts, _ = run(tmp_path, log)
    assert (counts.rebalances, counts.not_understood) == (1, ())


def test_time_with_a_zone_is_read_in_that_zone(tmp_path: Path) -> None:
    log = OldLog()
    log.lines = ["2026-03-01T13:00:00.250+01:00 INFO [GroupCoordinator 1]: Startup complete."]
    _, lines = run(tmp_path, log, zone=ZoneInfo("America/New_York"))
    assert lines[0].ts == ms(0.25)


def test_time_without_a_zone_is_of_the_zone_asked_for(tmp_path: Path) -> None:
    log = OldLog()
    log.say(0, "Startup complete.")
    _, lines = run(tmp_path, log, zone=ZoneInfo("Europe/Berlin"))
    assert lines[0].ts == ms(-3600)


def test_hour_that_comes_twice_does_not_go_back(tmp_path: Path) -> None:
    log = OldLog()
    log.lines = [
        f"[2026-10-25 02:{minute}:00,000] INFO [GroupCoordinator 1]: {text}"
        for minute, text in [("30", "Startup complete."), ("59", "Shutting down.")]
    ]
    log.lines.append("[2026-10-25 02:10:00,000] INFO [GroupCoordinator 1]: Startup complete.")
    _, lines = run(tmp_path, log, zone=ZoneInfo("Europe/Berlin"))
    times = [datetime.fromtimestamp(line.ts / 1000, UTC).strftime("%H:%M") for line in lines]
    assert times == ["00:30", "00:59", "01:10"]


def test_seconds_that_swap_are_not_taken_for_an_hour(tmp_path: Path) -> None:
    log = OldLog()
    log.lines = [
        f"[2026-10-25 02:{moment}] INFO [GroupCoordinator 1]: {text}"
        for moment, text in [("30:01,000", "Startup complete."), ("30:00,999", "Shutting down.")]
    ]
    _, lines = run(tmp_path, log, zone=ZoneInfo("Europe/Berlin"))
    assert lines[0].ts == lines[1].ts


def test_times_that_swap_are_put_right(tmp_path: Path) -> None:
    # Threads that log at once do that; a journal's lines are in order.
    log = OldLog()
    _join(log, 1.001, 0)
    log.say(1.0, "Group g with generation 1 is now empty (__consumer_offsets-7)")
    _, lines = run(tmp_path, log)
    assert [line.ts for line in lines] == [ms(1.001)] * 3


def test_compressed_file_that_ends_too_early_is_read_so_far_and_named(tmp_path: Path) -> None:
    log = OldLog()
    for second in range(2000):
        _join(log, second, second, f"g{second}")
    path = tmp_path / "server.log.gz"
    data = gzip.compress("".join(f"{line}\n" for line in log.lines).encode())
    path.write_bytes(data[: len(data) // 2])
    counts = import_logs([path], tmp_path / "out")
    assert 0 < counts.rebalances < 2000
    assert counts.cut_off_files == (str(path),)


def test_file_without_a_coordinator_is_named(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A)
    log.write(tmp_path / "server.log")
    wrong = tmp_path / "controller.log"
    wrong.write_text("[2026-03-01 12:00:00,000] INFO Ready. (kafka.controller.KafkaController)\n")
    counts = import_logs([tmp_path / "server.log", wrong], tmp_path / "out")
    assert counts.silent_files == (str(wrong),)


def test_logs_without_any_coordinator_are_refused(tmp_path: Path) -> None:
    (tmp_path / "controller.log").write_text("nothing\n")
    with pytest.raises(KafkaLogsError, match=r"None of 1 files.*server\.log"):
        import_logs([tmp_path / "controller.log"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_path_with_nothing_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaLogsError, match=r"There is no .*server\.log"):
        import_logs([tmp_path / "server.log"], tmp_path / "out")


def test_progress_is_reported_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    lines = ["noise"] * 250_000
    lines.append("[2026-03-01 12:00:00,000] INFO [GroupCoordinator 1]: Startup complete.")
    path.write_text("\n".join(lines) + "\n")
    told: list[int] = []
    import_logs([path], tmp_path / "out", progress=told.append)
    assert told == [100_000, 200_000]
