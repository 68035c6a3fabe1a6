"""Profiles: what `coterie profile` keeps, and where commands connect because of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coterie_cli.commands import topics
from coterie_cli.main import app
from coterie_cli.profiles import ProfileError, Profiles, file_path
from coterie_cli.target import TIMEOUT_S, Target
from coterie_cli.variables import BOOTSTRAP, Variable


def run(*words: str, code: int = 0, environ: Mapping[str, str] | None = None) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, words, env=environ)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where `topics list` with some options and variables would connect."""
    targets: list[Target] = []

    def administer(target: Target, _: object) -> tuple[()]:
        targets.append(target)
        return ()

    monkeypatch.setattr(topics, "administer", administer)

    def of(*words: str, **environ: str) -> Target:
        run("topics", "list", *words, environ=environ)
        return targets.pop()

    return of


@pytest.fixture
def two_profiles() -> None:
    """Profiles `near`, which is in use, and `far`."""
    run("profile", "set", "near", "--bootstrap", "near:1", "--http", "near:2")
    run("profile", "set", "far", "--bootstrap", "far:1", "--tls", "--user", "ann")


# -- where commands connect ------------------------------------------------------------------------


def test_without_anything_it_is_this_machine(target: Any) -> None:
    assert target() == Target(bootstrap=BOOTSTRAP, timeout_s=TIMEOUT_S)


@pytest.mark.usefixtures("two_profiles")
@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        ((), {}, Target("near:1", http="near:2")),
        (("--timeout", "3"), {}, Target("near:1", http="near:2", timeout_s=3)),
        (("--profile", "far"), {}, Target("far:1", tls=True, user="ann")),
        ((), {"COTERIE_PROFILE": "far"}, Target("far:1", tls=True, user="ann")),
        (("--profile", "far", "--no-tls"), {}, Target("far:1", tls=False, user="ann")),
        (("--profile", "far", "--bootstrap", "x:1"), {}, Target("x:1", tls=True, user="ann")),
        (("--bootstrap", "x:1"), {}, Target("x:1")),
        (("--bootstrap", "x:1"), {"COTERIE_PROFILE": "far"}, Target("x:1")),
        (("--bootstrap", "x:1"), {"COTERIE_HTTP": "y:2"}, Target("x:1")),
        ((), {"COTERIE_BOOTSTRAP": "x:1"}, Target("x:1")),
        ((), {"COTERIE_BOOTSTRAP": "x:1", "COTERIE_HTTP": "y:2"}, Target("x:1", http="y:2")),
        ((), {"COTERIE_HTTP": "y:2"}, Target("near:1", http="y:2")),
        (
            ("--profile", "far"),
            {"COTERIE_BOOTSTRAP": "x:1", "COTERIE_HTTP": "y:2"},
            Target("far:1", tls=True, user="ann"),
        ),
    ],
)
def test_two_clusters_are_never_mixed(
    target: Any, words: tuple[str, ...], environ: dict[str, str], expected: Target
) -> None:
    assert target(*words, **environ) == expected


@pytest.mark.usefixtures("two_profiles")
def test_unknown_profile_is_refused_with_the_nearest() -> None:
    said = run("topics", "list", "--profile", "nearr", code=2)
    assert said == "There is no profile 'nearr'. The nearest known one is 'near'.\n"


# -- keeping them ----------------------------------------------------------------------------------


def test_first_profile_is_in_use_at_once_and_another_when_chosen() -> None:
    assert run("profile", "list") == "There are no profiles.\n"
    assert run("profile", "set", "near", "--bootstrap", "near:1") == "Made near.\n"
    run("profile", "set", "far", "--bootstrap", "far:1", "--tls", "--user", "ann")
    assert [line.split() for line in run("profile", "list").splitlines()] == [
        ["PROFILE", "BOOTSTRAP", "SECURITY"],
        ["far", "far:1", "TLS,", "ann"],
        ["*", "near", "near:1", "-"],
    ]
    run("profile", "use", "far")
    assert json.loads(run("profile", "list", "--json"))["current"] == "far"
    assert "no profile 'fat'. The nearest known one is 'far'" in run(
        "profile", "use", "fat", code=2
    )


@pytest.mark.usefixtures("two_profiles")
def test_change_leaves_what_is_not_given() -> None:
    assert run("profile", "set", "far", "--timeout", "2.5") == "Changed far.\n"
    assert Profiles.read(file_path()).get("far") == {
        "bootstrap": "far:1",
        "tls": True,
        "user": "ann",
        "timeout": 2.5,
    }


@pytest.mark.usefixtures("two_profiles")
def test_deleted_profile_is_not_in_use_any_more(target: Any) -> None:
    run("profile", "delete", "near")
    assert target() == Target(BOOTSTRAP)


def test_file_is_where_the_path_says_and_only_for_its_owner(profiles_file: Path) -> None:
    run("profile", "set", 'odd "näme"', "--bootstrap", "x:1")
    assert run("profile", "path") == f"{profiles_file}\n"
    assert profiles_file.stat().st_mode & 0o777 == 0o600
    assert list(Profiles.read(profiles_file).by_name) == ['odd "näme"']


def test_file_is_in_the_users_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(Variable.PROFILES)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert file_path() == Path("/somewhere/coterie/profiles.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert file_path() == Path.home() / ".config" / "coterie" / "profiles.toml"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("current = ", "is not valid TOML"),
        ('curent = "a"', "'curent' has no meaning"),
        ('current = "a"', "there is no profile 'a'."),
        ("profiles = 3", "must be a table"),
        ("[profiles]\na = 3", r"\[profiles\.a\]"),
        ("[profiles.a]\nboostrap = 'x:1'", "'boostrap'. The nearest known one is 'bootstrap'"),
        ("[profiles.a]\ntls = 'yes'", "tls of profile 'a' must be true or false, got 'yes'"),
        ("[profiles.a]\ntimeout = true", "timeout of profile 'a' must be a number of seconds"),
    ],
)
def test_mistake_in_the_file_is_told_with_its_place(
    profiles_file: Path, text: str, sentence: str
) -> None:
    profiles_file.parent.mkdir()
    profiles_file.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=sentence) as caught:
        Profiles.read(profiles_file)
    assert str(caught.value).startswith(str(profiles_file))
    assert str(profiles_file) in run("topics", "list", code=2)
