"""Profiles: what `coterie profile` keeps, and where commands connect because of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from coterie_cli.commands import topics
from coterie_cli.main import app
from coterie_cli.profiles import ProfileError, Profiles, file_path
from coterie_cli.target import TIMEOUT_S, Target
from coterie_cli.target_values import KEYS
from coterie_cli.variables import BOOTSTRAP, Variable

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


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


def test_a_file_that_can_not_be_read_is_named_as_it_is(tmp_path: Path) -> None:
    """Also where a sentence begins with its name."""
    folder = os.path.relpath(tmp_path)
    for name in ("client.properties", "nothere"):
        said = run("topics", "list", "--config-file", name, code=2)
        assert said == f"The file {name} can't be read: No such file or directory.\n"
    (tmp_path / "bad.toml").write_text("{")
    said = run("profile", "list", code=2, environ={"COTERIE_PROFILES": f"{folder}/bad.toml"})
    assert "/bad.toml is not valid TOML: " in said


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
        ("[profiles.a]\ntimeout = nan", "from 0.1 to 1,000,000, got nan"),
        ("[profiles.a]\ntimeout = 0", "from 0.1 to 1,000,000, got 0"),
        ("[profiles.a]\nmechanism = 'LOGIN'", "must be one of PLAIN, .*, got 'LOGIN'"),
        ("[profiles.a]\nbootstrap = ''", "must be HOST:PORT.* with commas, got ''"),
        ("[profiles.a]\nhttp = '127.0.0.1'", "http of profile 'a' must be HOST:PORT"),
        ("current = 3", "'current' must be the name of a profile, got 3"),
        (f"x = {'[' * 3000}", "nested too deeply"),
        ("# " + "long " * 200_000, "too large"),
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


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("--timeout=nan", "a number of seconds from 0.1 to 1,000,000"),
        ("--http=", "HOST:PORT"),
        ("--http=here", "HOST:PORT"),
        ("--http=here:0", "HOST:PORT"),
        ("--http=here:99999", "HOST:PORT"),
        ("--http=here:\u0663", "HOST:PORT"),
        ("--http=ftp://here:1", "HOST:PORT"),
        ("--http=a b:1", "HOST:PORT"),
        ("--bootstrap=", "HOST:PORT, or several of that"),
        ("--bootstrap=\x1b[31m:1", "HOST:PORT, or several of that"),
        ("--user=", "a name"),
        ("--mechanism=scram", "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
@pytest.mark.parametrize("command", ["topics list", "groups why g", "profile set near"])
def test_option_that_makes_no_sense_is_refused_everywhere(
    command: str, option: str, wanted: str, profiles_file: Path
) -> None:
    said = run(*command.split(), option, code=2)
    name, _, value = option.partition("=")
    assert said.startswith(f"{name} must be {wanted}")
    assert said.rstrip().endswith(f"got {value!r}." if value != "nan" else "got nan.")
    assert not profiles_file.exists()


def test_address_may_be_copied_from_the_line_of_the_daemon(target: Any) -> None:
    assert target("--http", "http://127.0.0.1:9080").http == "127.0.0.1:9080"
    assert target("--http", "http://[::1]:9080/").http == "[::1]:9080"


@pytest.mark.usefixtures("two_profiles")
def test_profile_without_a_name_is_none_but_an_empty_variable_is_unset(target: Any) -> None:
    # As with --profile "$PROFILE" where that is not set: the one in use may be another cluster.
    assert run("topics", "list", "--profile", "", code=2) == "There is no profile ''.\n"
    assert target(COTERIE_PROFILE="").bootstrap == "near:1"


@pytest.mark.parametrize("name", ["", "a\nb", "\udcff"])
def test_profile_needs_a_name_that_can_be_shown(name: str, profiles_file: Path) -> None:
    said = run("profile", "set", name, "--bootstrap", "x:1", code=2)
    assert said == f"A profile can't have the name {name!r}.\n"
    assert not profiles_file.exists()


def test_profile_keeps_no_address_that_is_none(profiles_file: Path) -> None:
    assert "HOST:PORT" in run("profile", "set", "a", "--bootstrap", "nowhere", code=2)
    assert not profiles_file.exists()


@pytest.mark.parametrize("name", ["\N{GRINNING FACE}", 'quo"te', "back\\slash", "é"])
def test_odd_name_can_be_read_again(name: str) -> None:
    run("profile", "set", name, "--bootstrap", "x:1", "--user", f"{name}'s")
    assert Profiles.read(file_path()).get(name)["user"] == f"{name}'s"


def test_file_behind_a_link_is_changed_and_the_link_stays(profiles_file: Path) -> None:
    kept = profiles_file.parent.parent / "dotfiles.toml"
    profiles_file.parent.mkdir()
    profiles_file.symlink_to(kept)
    run("profile", "set", "near", "--bootstrap", "near:1")
    assert profiles_file.is_symlink()
    assert list(Profiles.read(kept).by_name) == ["near"]


def test_device_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ProfileError, match="is not a file that profiles can be kept in"):
        Profiles().write(pipe)
    assert pipe.is_fifo()


def test_without_a_home_there_are_no_profiles(monkeypatch: pytest.MonkeyPatch, target: Any) -> None:
    for variable in (Variable.PROFILES, "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert target().bootstrap == BOOTSTRAP
    for command in (["path"], ["list"], ["set", "a"], ["use", "a"]):
        said = run("profile", *command, code=2)
        assert said.startswith("You have no home directory to keep profiles in; name a file in")
    assert run("topics", "list", "--profile", "a", code=2) == "There is no profile 'a'.\n"


def test_authorities_may_be_anywhere_but_in_a_directory_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    run("profile", "set", "a", "--ca-file", "ca.pem")
    assert target().ca_file == gone / "ca.pem"
    gone.rmdir()
    assert "the current directory is gone" in run("profile", "set", "a", "--ca-file", "x", code=2)
    assert "not known" in run("topics", "list", "--ca-file", "~unknown-user/x", code=2)


# -- the page --------------------------------------------------------------------------------------


def test_page_shows_what_the_commands_print() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = page.partition("### Profiles")[2].partition("```console\n")[2].partition("```")[0]
    for block in shown.split("$ coterie ")[1:]:
        command, _, output = block.partition("\n")
        if command.startswith("profile "):
            assert run(*command.split()) == output


def test_page_shows_a_file_that_can_be_read(profiles_file: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    profiles_file.parent.mkdir()
    text = page.partition("```toml\n")[2].partition("```")[0]
    profiles_file.write_text(text, encoding="utf-8")
    found = Profiles.read(profiles_file)
    assert found.current == "local"
    assert set(KEYS) == {key for values in found.by_name.values() for key in values}
