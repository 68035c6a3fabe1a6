"""The model's configurations cover its rules, and the runner reads TLC's verdicts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import check_model
from tools.check_model import (
    INVARIANTS,
    Configuration,
    Constant,
    ModelError,
    check,
    configuration_text,
    read_configurations,
    verdict,
)

HELD = """\
Progress(15) at 2026-11-22 20:05:22: 137,952 states generated (137,952 s/min), \
38,369 distinct states found (38,369 ds/min), 14,053 states left on queue.
Model checking completed. No error has been found.
1445292 states generated, 260947 distinct states found, 0 states left on queue.
"""
BROKEN = """\
Error: Invariant OneAnswers is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
291 states generated, 129 distinct states found, 70 states left on queue.
"""
STUCK = """\
Error: Temporal properties were violated.

Error: The following behavior constitutes a counter-example:
252 states generated, 75 distinct states found, 0 states left on queue.
"""
CONSTANTS: Mapping[str, Constant] = {
    "Nodes": ["a", "b"],
    "Patient": [],
    "Lease": 2,
    "EpochFences": True,
    "GraceOf": "all",
}


def configuration(name: str = "calm", finds: str = "", **constants: Constant) -> Configuration:
    return Configuration(name, "all is well", {**CONSTANTS, **constants}, finds=finds)


@pytest.fixture(scope="module")
def model(root: Path) -> Path:
    return root / "docs" / "model"


@pytest.fixture(scope="module")
def configurations(model: Path) -> list[Configuration]:
    return read_configurations((model / "configurations.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def specification(model: Path) -> str:
    return (model / "Shards.tla").read_text(encoding="utf-8")


# -- the configurations ------------------------------------------------------------------------


def declared(specification: str) -> list[list[str]]:
    """The constants of the model: of what it is made, what may happen, and its rules."""
    blocks = re.findall(r"^CONSTANTS(.*?)\n\n", specification, flags=re.MULTILINE | re.DOTALL)
    return [re.findall(r"^    (\w+)", block, flags=re.MULTILINE) for block in blocks]


def test_every_constant_has_a_value(
    specification: str, configurations: list[Configuration]
) -> None:
    names = {name for block in declared(specification) for name in block}
    for each in configurations:
        assert each.constants.keys() | {"None"} == names


def test_every_fault_happens_where_all_holds(
    specification: str, configurations: list[Configuration]
) -> None:
    _, faults, _ = declared(specification)
    sound = [each.constants for each in configurations if not each.finds]
    for fault in faults:
        assert any(constants[fault] != 0 for constants in sound), fault


def test_every_rule_is_needed(specification: str, configurations: list[Configuration]) -> None:
    *_, rules = declared(specification)
    assert len(rules) > 5
    keeps_all = configurations[0].constants
    broken = {
        rule
        for each in configurations
        if each.finds
        for rule in rules
        if each.constants[rule] != keeps_all[rule]
    }
    assert broken == set(rules)


def test_all_holds_where_a_fault_was_planted_once_its_rule_is_back(
    specification: str, configurations: list[Configuration]
) -> None:
    """Or the rule would not be what the checker has missed."""
    usual, faults, rules = declared(specification)
    planted = [each for each in configurations if each.finds and each.finds != "AllKept"]
    for each in planted:
        assert len([r for r in rules if each.constants[r] != configurations[0].constants[r]]) == 1
        assert [
            sound.name
            for sound in configurations
            if not sound.finds
            and each.finds in (*sound.invariants, *sound.properties)
            and all(
                sound.constants[name] == each.constants[name] for name in usual if name != "None"
            )
            and all(_number(sound, name) >= _number(each, name) for name in faults)
            and all(sound.constants[name] == configurations[0].constants[name] for name in rules)
        ], each.name


def _number(configuration: Configuration, name: str) -> int:
    number = configuration.constants[name]
    assert isinstance(number, int)
    return number


def test_every_promise_is_in_the_model(
    specification: str, configurations: list[Configuration]
) -> None:
    for each in configurations:
        for promise in (*each.invariants, *each.properties, *filter(None, [each.finds])):
            assert re.search(rf"^{promise} ==", specification, flags=re.MULTILINE), promise
        assert not each.finds or each.finds in (*each.invariants, *each.properties)


def test_page_lists_every_configuration(model: Path, configurations: list[Configuration]) -> None:
    page = (model / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|(?: `(\w+)` \|)?$", page, flags=re.MULTILINE)
    rows = [row for row in listed if row[0] not in (*INVARIANTS, "ServedAgain")]
    assert rows == [(each.name, each.shows, each.finds) for each in configurations]


def test_page_lists_every_promise(model: Path) -> None:
    page = (model / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \| [A-Z]", page, flags=re.MULTILINE) == [
        *INVARIANTS,
        "ServedAgain",
    ]


def test_folders_of_configurations_are_apart(configurations: list[Configuration]) -> None:
    assert len({each.folder for each in configurations}) == len(configurations)


def test_unknown_constant_is_refused() -> None:
    text = """
        constants = { Lease = 2 }
        [[configuration]]
        name = "odd"
        shows = "nothing"
        constants = { Leese = 3 }
    """
    with pytest.raises(ModelError, match="odd: unknown constants Leese"):
        read_configurations(text)


def test_configuration_in_tlcs_format() -> None:
    assert configuration_text(configuration()) == (
        "SPECIFICATION Spec\n"
        "CONSTANTS\n"
        "    None = None\n"
        "    Nodes = {a, b}\n"
        "    Patient = {}\n"
        "    Lease = 2\n"
        "    EpochFences = TRUE\n"
        '    GraceOf = "all"\n'
        "INVARIANTS OneAnswers OwnerKnows NothingLost NothingStale\n"
        "SYMMETRY Alike\n"
        "CHECK_DEADLOCK FALSE\n"
    )


def test_nodes_that_differ_are_not_taken_for_alike() -> None:
    assert "SYMMETRY" not in configuration_text(configuration(Patient=["a"]))


def test_properties_are_checked_without_symmetry() -> None:
    """TLC would overlook cycles."""
    live = Configuration("live", "it goes on", CONSTANTS, properties=["ServedAgain"])
    assert "PROPERTIES ServedAgain\n" in configuration_text(live)
    assert "SYMMETRY" not in configuration_text(live)


# -- verdicts ----------------------------------------------------------------------------------


def test_verdict_of_a_model_that_holds() -> None:
    assert verdict(HELD) == check_model.Verdict("", 260_947)


def test_verdict_of_a_broken_invariant() -> None:
    assert verdict(BROKEN) == check_model.Verdict("OneAnswers", 129)


def test_verdict_of_a_broken_property() -> None:
    assert verdict(STUCK, ["ServedAgain"]) == check_model.Verdict("ServedAgain", 75)


def test_anything_else_is_no_verdict() -> None:
    with pytest.raises(ModelError, match=r"no verdict:\n.*exploded"):
        verdict("Error: TLC exploded\n")


def checked(output: str, finds: str = "") -> tuple[bool, str]:
    """What is said of a configuration for which TLC prints this."""
    times_s = iter([10.0, 12.5])
    (result,) = check([configuration(finds=finds)], lambda _: output, lambda: next(times_s))
    return result


def test_line_has_verdict_states_and_time() -> None:
    is_expected, line = checked(HELD)
    assert is_expected
    assert line.split() == ["calm", "holds", "260,947", "states", "2.5", "s"]


def test_planted_fault_that_is_found_is_right() -> None:
    is_expected, line = checked(BROKEN, finds="OneAnswers")
    assert is_expected
    assert "OneAnswers is broken" in line


@pytest.mark.parametrize(
    ("output", "finds", "wanted"),
    [
        (HELD, "OneAnswers", "expected OneAnswers to be broken"),
        (BROKEN, "", "expected it to hold"),
        (BROKEN, "OwnerKnows", "expected OwnerKnows to be broken"),
        ("Error: no such file\n", "", "no verdict"),
    ],
)
def test_other_verdict_than_the_expected_one_fails(output: str, finds: str, wanted: str) -> None:
    is_expected, line = checked(output, finds)
    assert not is_expected
    assert wanted in line


# -- the command -------------------------------------------------------------------------------


def test_it_is_skipped_without_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_model.main([]) == 0
    assert capsys.readouterr().out == (
        "make model: skipped, as java and mvn can't be found on the PATH.\n"
    )


@pytest.fixture
def path_with_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder on the PATH with programs that only fail."""
    for tool in ("java", "mvn"):
        (tmp_path / tool).write_text("#!/bin/sh\necho no repository\nexit 1\n", encoding="utf-8")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(check_model, "_BUILD", tmp_path / "build")
    return tmp_path


@pytest.mark.usefixtures("path_with_tools")
def test_it_fails_if_maven_can_not_get_tlc(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_model.main([]) == 1
    assert "Maven can't get TLC:\nno repository" in capsys.readouterr().err


@pytest.mark.usefixtures("path_with_tools")
def test_unknown_configuration_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_model.main(["no such thing"]) == 1
    assert "no configuration no such thing; there are pauses," in capsys.readouterr().err


@pytest.mark.slow
def test_tlc_finds_a_planted_fault_and_none_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("TLC needs java and mvn on the PATH")
    status = check_model.main(["no epoch fences", "served again: one name", "--workers", "1"])
    found = capsys.readouterr()
    if "Maven can't get TLC" in found.err:
        pytest.skip("Maven can't get TLC here")
    assert status == 0
    first, second = found.out.splitlines()
    assert first.startswith("no epoch fences")
    assert "OwnerKnows is broken" in first
    assert "holds" in second
