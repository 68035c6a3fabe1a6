"""Settings: what they may be, where they come from, and what is said about a wrong one."""

import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from coterie_server.config.settings import SETTINGS, Setting, Settings, SettingsError

REFERENCE = Path(__file__).parents[3] / "docs" / "settings.md"

BY_KEY = {setting.key: setting for setting in SETTINGS}
WHOLE_NUMBERS = [setting for setting in SETTINGS if type(setting.default) is int]


def config(tmp_path: Path, text: str) -> Path:
    """Write a settings file."""
    path = tmp_path / "coterie.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(overrides: list[str]) -> str:
    """Return what is said about overrides that cannot be used."""
    with pytest.raises(SettingsError) as caught:
        Settings.load(overrides=overrides)
    return str(caught.value)


# What they are without any source


def test_defaults_are_those_of_kafka() -> None:
    settings = Settings()
    assert settings.group_initial_rebalance_delay_ms == 3000
    assert settings.group_min_session_timeout_ms == 6000
    assert settings.group_max_session_timeout_ms == 30 * 60 * 1000
    assert settings.group_max_size == 2**31 - 1
    assert settings.offset_metadata_max_bytes == 4096
    assert settings.offsets_retention_minutes == 7 * 24 * 60
    assert settings.offsets_retention_check_interval_ms == 600_000
    assert settings.socket_request_max_bytes == 100 * 1024 * 1024
    assert settings.connections_max_idle_ms == 600_000
    assert settings.num_partitions == 1
    assert settings.auto_create_topics_enable is True
    assert settings.delete_topic_enable is True


def test_nothing_given_is_the_defaults() -> None:
    assert Settings.load() == Settings()


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().group_max_size = 5  # type: ignore[misc]


def test_value_is_found_by_its_key() -> None:
    settings = Settings(group_max_size=7)
    assert settings["group.max.size"] == 7


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_each_setting_says_what_it_is(setting: Setting) -> None:
    assert setting.help[0].isupper()
    assert setting.help.endswith(".")
    assert setting.check(setting.default, setting.default) == setting.default


def test_units_end_the_key() -> None:
    timed = [setting for setting in WHOLE_NUMBERS if setting.unit in ("ms", "minutes")]
    assert timed
    assert [setting.key for setting in timed if not setting.key.endswith(setting.unit)] == []


# Sources


def test_file_with_dotted_keys(tmp_path: Path) -> None:
    path = config(tmp_path, 'group.max.size = 5\ngroup.consumer.id.style = "sequence"\n')
    settings = Settings.load(path)
    assert settings == Settings(group_max_size=5, group_consumer_id_style="sequence")


def test_file_with_tables(tmp_path: Path) -> None:
    path = config(tmp_path, "[group]\nmax.size = 5\n[group.min]\nsession.timeout.ms = 7\n")
    assert Settings.load(path) == Settings(group_max_size=5, group_min_session_timeout_ms=7)


def test_file_with_quoted_keys(tmp_path: Path) -> None:
    path = config(tmp_path, '"group.max.size" = 5\n')
    assert Settings.load(path) == Settings(group_max_size=5)


def test_file_sets_a_key_and_one_that_it_begins(tmp_path: Path) -> None:
    """Quotes allow in one file what TOML's tables do not."""
    path = config(tmp_path, 'max.connections = 9\n"max.connections.per.ip" = 3\n')
    assert Settings.load(path) == Settings(max_connections=9, max_connections_per_ip=3)


def test_file_with_numbers_as_text(tmp_path: Path) -> None:
    """As in properties files, where all values are text."""
    path = config(tmp_path, 'group.max.size = "5"\njournal.commits = "false"\n')
    assert Settings.load(path) == Settings(group_max_size=5, journal_commits=False)


def test_environment() -> None:
    environ = {"COTERIE_GROUP_MAX_SIZE": "5", "COTERIE_LOG_FORMAT": "json", "HOME": "elsewhere"}
    assert Settings.load(environ=environ) == Settings(group_max_size=5, log_format="json")


def test_overrides() -> None:
    settings = Settings.load(overrides=["group.max.size=5", " journal.commits = false "])
    assert settings == Settings(group_max_size=5, journal_commits=False)


def test_later_sources_win(tmp_path: Path) -> None:
    path = config(tmp_path, "node.id = 2\ngroup.max.size = 2\nnum.partitions = 2\n")
    environ = {"COTERIE_GROUP_MAX_SIZE": "3", "COTERIE_NUM_PARTITIONS": "3"}
    settings = Settings.load(path, environ, ["num.partitions=4", "num.partitions=5"])
    assert settings == Settings(node_id=2, group_max_size=3, num_partitions=5)


@pytest.mark.parametrize(
    "variable",
    [
        "COTERIE_SERVICE_HOST",
        "COTERIE_SERVICE_PORT",
        "COTERIE_SERVICE_PORT_KAFKA",
        "COTERIE_PORT",
        "COTERIE_PORT_9092_TCP",
        "COTERIE_PORT_9092_TCP_PROTO",
        "COTERIE_PORT_9092_TCP_ADDR",
        "COTERIE_HEADLESS_PORT_9080_TCP_PORT",
    ],
)
def test_variables_of_kubernetes_are_no_settings(variable: str) -> None:
    """For a service called coterie, Kubernetes sets variables in every pod."""
    assert Settings.load(environ={variable: "tcp://10.0.0.1:9092"}) == Settings()


def test_no_setting_is_mistaken_for_a_variable_of_kubernetes() -> None:
    for setting in SETTINGS:
        try:
            found = Settings.load(environ={setting.variable: "?"})
        except SettingsError:
            continue
        assert found[setting.key] == "?"


def test_foreign_variables_are_left_to_others() -> None:
    """The command line's own variables may share the prefix."""
    environ = {"COTERIE_CONFIG": "coterie.toml"}
    assert Settings.load(environ=environ, foreign_variables={"COTERIE_CONFIG"}) == Settings()
    with pytest.raises(SettingsError, match="COTERIE_CONFIG"):
        Settings.load(environ=environ)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("log.level=WARNING", Settings(log_level="warning")),
        ("journal.commits=False", Settings(journal_commits=False)),
        ("group.max.size= +5 ", Settings(group_max_size=5)),
    ],
)
def test_words_may_be_in_capitals_and_spaces_around(override: str, expected: Settings) -> None:
    assert Settings.load(overrides=[override]) == expected


# Unknown names


def test_unknown_override_is_refused_by_name() -> None:
    assert refusal(["group.max.sise=5"]) == (
        "unknown setting group.max.sise (from --set); the nearest known one is group.max.size"
    )


def test_unknown_variable_is_refused_by_name() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ={"COTERIE_GROUP_MAX_SISE": "5"})
    assert str(caught.value) == (
        "unknown setting COTERIE_GROUP_MAX_SISE (in the environment); "
        "the nearest known one is COTERIE_GROUP_MAX_SIZE"
    )


def test_unknown_key_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    path = config(tmp_path, "[group]\nmax.sise = 5\n")
    with pytest.raises(SettingsError) as caught:
        Settings.load(path)
    assert str(caught.value) == (
        f"unknown setting group.max.sise (in {path}); the nearest known one is group.max.size"
    )


@pytest.mark.parametrize("name", ["zzz", "foo"])
def test_no_setting_is_suggested_for_a_name_that_is_near_none(name: str) -> None:
    assert refusal([f"{name}=1"]) == f"unknown setting {name} (from --set)"
    variable = f"COTERIE_{name.upper()}"
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ={variable: "1"})
    assert str(caught.value) == f"unknown setting {variable} (in the environment)"


def test_override_without_a_value_is_refused() -> None:
    assert refusal(["group.max.size"]) == "--set group.max.size: expected KEY=VALUE"


# Bad values


@pytest.mark.parametrize(
    "value", ["", "five", "0", "2147483648", "1.5", "1_000", "0x10", "\u0665", "9" * 5000]
)
def test_bad_number_says_what_is_expected(value: str) -> None:
    assert refusal([f"group.max.size={value}"]) == (
        f"group.max.size = {value!r} (from --set): "
        f"expected a whole number of members from 1 to 2147483647"
    )


@pytest.mark.parametrize("value", ["yes", "1", ""])
def test_bad_flag_says_what_is_expected(value: str) -> None:
    assert refusal([f"delete.topic.enable={value}"]) == (
        f"delete.topic.enable = {value!r} (from --set): expected true or false"
    )


def test_bad_choice_says_what_there_is() -> None:
    assert refusal(["group.ownership.guard=on"]) == (
        "group.ownership.guard = 'on' (from --set): expected off, report or enforce"
    )


def test_bad_text_says_what_is_expected() -> None:
    assert refusal(["cluster.id=two words"]).startswith("cluster.id = 'two words' (from --set)")


def test_bad_variable_is_named() -> None:
    with pytest.raises(SettingsError, match=r"\(from COTERIE_GROUP_MAX_SIZE\)"):
        Settings.load(environ={"COTERIE_GROUP_MAX_SIZE": "x"})


@pytest.mark.parametrize("text", ["true", "1.0", "[1]", "2026-01-01"])
def test_value_of_another_type_in_the_file(tmp_path: Path, text: str) -> None:
    """What TOML reads as something other than a whole number is not taken for one."""
    path = config(tmp_path, f"group.max.size = {text}\n")
    with pytest.raises(SettingsError, match=r"expected a whole number"):
        Settings.load(path)


@pytest.mark.parametrize("setting", WHOLE_NUMBERS, ids=lambda setting: setting.key)
def test_bounds_hold(setting: Setting) -> None:
    allowed = {setting.at_least, setting.at_most}
    assert {setting.check(value, value) for value in allowed} == allowed
    for value in {setting.at_least - 1, setting.at_most + 1} - {setting.exception}:
        with pytest.raises(SettingsError):
            setting.check(value, value)


def test_number_with_a_meaning_of_its_own() -> None:
    assert Settings.load(overrides=["journal.retention.ms=-1"]).journal_retention_ms == -1
    assert refusal(["journal.retention.ms=-2"]).endswith(", or -1: for ever")


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        ("num.partitions", "topic.max.partitions"),
    ],
)
def test_bounds_between_settings_hold(smaller: str, larger: str) -> None:
    Settings.load(overrides=[f"{smaller}=500", f"{larger}=500"])
    assert refusal([f"{smaller}=501", f"{larger}=500"]) == (
        f"{smaller} = 501 and {larger} = 500: the first must not be larger than the second"
    )


def test_constructed_settings_are_checked_too() -> None:
    with pytest.raises(SettingsError, match=r"^group\.max\.size = 0: expected"):
        replace(Settings(), group_max_size=0)


# Bad files


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the settings in .*No such file"):
        Settings.load(tmp_path / "none.toml")


def test_file_that_is_no_toml(tmp_path: Path) -> None:
    path = config(tmp_path, "group.max.size: 5\n")
    with pytest.raises(SettingsError, match=r"is not valid TOML: .*line 1"):
        Settings.load(path)


def test_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "coterie.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8"):
        Settings.load(path)


def test_key_below_another_one_needs_quotes(tmp_path: Path) -> None:
    path = config(tmp_path, "max.connections = 9\nmax.connections.per.ip = 3\n")
    with pytest.raises(SettingsError, match=r'write "max\.connections\.per\.ip" in quotes$'):
        Settings.load(path)


def test_cure_is_only_offered_for_that_disease(tmp_path: Path) -> None:
    path = config(tmp_path, "max.connections.per.ip = 3\nnonsense\n")
    with pytest.raises(SettingsError) as caught:
        Settings.load(path)
    assert "quotes" not in str(caught.value)


def test_key_that_is_given_twice(tmp_path: Path) -> None:
    path = config(tmp_path, 'group.max.size = 5\n"group.max.size" = 6\n')
    with pytest.raises(SettingsError, match=r"^group\.max\.size is given twice"):
        Settings.load(path)


# One listener's own


@pytest.mark.parametrize(
    ("environ", "overrides"),
    [
        ({}, ["listener.name.OUTSIDE.ssl.client.auth=required"]),
        ({"COTERIE_LISTENER_NAME_OUTSIDE_SSL_CLIENT_AUTH": "required"}, []),
        ({"COTERIE_SSL_CLIENT_AUTH": "none"}, ["listener.name.outside.ssl.client.auth=required"]),
    ],
)
def test_listener_has_values_of_its_own(environ: dict[str, str], overrides: list[str]) -> None:
    settings = Settings.load(environ=environ, overrides=overrides)
    assert settings.for_listener("Outside").ssl_client_auth == "required"
    assert settings.for_listener("inside") == replace(settings, of_listeners=())
    assert settings.ssl_client_auth == "none"


def test_file_with_values_of_listeners(tmp_path: Path) -> None:
    path = config(tmp_path, '[listener.name.a]\nssl.client.auth = "requested"\n')
    overrides = ["listener.name.b.ssl.client.auth=required"]
    settings = Settings.load(path, overrides=overrides)
    found = [settings.for_listener(name).ssl_client_auth for name in "abc"]
    assert found == ["requested", "required", "none"]


def test_value_for_a_listener_must_be_allowed() -> None:
    assert refusal(["listener.name.a.ssl.client.auth=maybe"]).endswith("requested or required")


def test_what_holds_for_all_listeners_is_refused_for_one() -> None:
    assert refusal(["listener.name.a.group.max.size=5"]) == (
        "listener.name.a.group.max.size (from --set): group.max.size can't be set for one listener"
        " alone"
    )


def test_unknown_setting_of_a_listener_is_refused() -> None:
    assert refusal(["listener.name.a.ssl.clint.auth=none"]).startswith("unknown setting listener.n")


# One mechanism's own

REAUTH = "connections.max.reauth.ms"


def test_mechanism_of_a_listener_has_values_of_its_own(tmp_path: Path) -> None:
    prefix = "COTERIE_LISTENER_NAME_A_B_"
    environ = {
        "COTERIE_CONNECTIONS_MAX_REAUTH_MS": "1",
        f"{prefix}CONNECTIONS_MAX_REAUTH_MS": "2",
        f"{prefix}SCRAM_SHA_256_CONNECTIONS_MAX_REAUTH_MS": "3",
        f"{prefix}OAUTHBEARER_SASL_OAUTHBEARER_EXPECTED_ISSUER": "us",
    }
    path = config(tmp_path, f"[listener.name.a_b.plain]\n{REAUTH} = 4\n")
    settings = Settings.load(path, environ=environ)
    mechanisms = ("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    own = {each: settings.for_listener("A_B", each) for each in mechanisms}
    found = [each.connections_max_reauth_ms for each in own.values()]
    assert found == [2, 4, 3, 2, 2]
    assert own["OAUTHBEARER"].sasl_oauthbearer_expected_issuer == "us"
    assert not own["PLAIN"].sasl_oauthbearer_expected_issuer
    assert settings.for_listener("other", "PLAIN").connections_max_reauth_ms == 1
    assert settings.shown()[f"listener.name.a_b.scram-sha-256.{REAUTH}"] == 3


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("plain.ssl.client.auth", "ssl.client.auth can't be set for PLAIN alone"),
        ("plain.sasl.oauthbearer.expected.issuer", "can't be set for PLAIN alone"),
        ("oauthbearer.group.max.size", "group.max.size can't be set for OAUTHBEARER alone"),
        ("plain.sasl.server.callback.handler.class", "no class of Java's can be loaded"),
        ("oauthbearer.sasl.login.callback.handler.class", "no class of Java's can be loaded"),
        ("oauthbearer.sasl.login.class", "no class of Java's can be loaded"),
        ("scram-sha-512.sasl.jaas.config", "users of SCRAM are in the store"),
        ("oauthbearer.sasl.jaas.config", "tokens are checked with what is in sasl.oauthbearer.jw"),
        ("sasl.jaas.config", "say for which mechanism, as in listener.name.a.plain.sasl.jaas"),
        ("gssapi.sasl.jaas.config", "GSSAPI is not supported"),
        (f"gssapi.{REAUTH}", "GSSAPI is not supported"),
        (f"scram-sha-1.{REAUTH}", "unknown setting"),
        ("plain.sasl.server.max.receive.sice", "unknown setting"),
    ],
)
def test_what_no_mechanism_of_a_listener_can_have_is_refused_by_name(key: str, why: str) -> None:
    said = refusal([f"listener.name.a.{key}=1"])
    assert f"listener.name.a.{key}" in said
    assert why in said


# Secrets

SECRETS = [setting for setting in SETTINGS if setting.secret]


@pytest.mark.parametrize("setting", SECRETS, ids=lambda setting: setting.key)
def test_secret_is_neither_taken_from_arguments_nor_shown(setting: Setting) -> None:
    keys = [setting.key, f"listener.name.a.{setting.key}"]
    for key in keys if setting.per_listener else keys[:1]:
        said = refusal([f"{key}=hunter2"])
        assert "list of processes" in said
        assert "hunter2" not in said


def test_refused_secret_of_a_listener_is_told_the_variable_that_does_the_same() -> None:
    said = refusal(["listener.name.in.plain.sasl.jaas.config=hunter2"])
    (variable,) = re.findall(r"by the variable (\w+)", said)
    (found,) = Settings.load(environ={variable: "hunter2"}).of_listeners
    assert found.key == "listener.name.in.plain.sasl.jaas.config"


@pytest.mark.parametrize("setting", SECRETS, ids=lambda setting: setting.key)
def test_secret_is_hidden_wherever_settings_are_shown(setting: Setting) -> None:
    prefix = "COTERIE_LISTENER_NAME_A_"
    of_listener = f"{prefix}{setting.attribute.upper()}"
    settings = Settings.load(environ={setting.variable: "hunter2"})
    assert settings[setting.key] == "hunter2"
    shown = [repr(settings), repr(settings.shown())]
    if setting.per_listener:
        settings = Settings.load(environ={of_listener: "hunter2"})
        assert settings.for_listener("a")[setting.key] == "hunter2"
        shown += [repr(settings), repr(settings.for_listener("a")), repr(settings.shown())]
    assert "hunter2" not in "".join(shown)


def test_bad_secret_is_not_shown_in_what_is_said_about_it() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ={"COTERIE_SSL_KEY_PASSWORD": "hunter2\0."})
    assert "hunter2" not in str(caught.value)


def test_all_that_is_set_is_shown() -> None:
    settings = Settings.load(overrides=["listener.name.a.ssl.client.auth=required"])
    shown = settings.shown()
    assert shown.pop("listener.name.a.ssl.client.auth") == "required"
    assert shown == {setting.key: setting.default for setting in SETTINGS}


# The reference


def reference_row(setting: Setting) -> str:
    """Return the line of the reference that a setting must have."""
    shown = str(setting.default).lower() if type(setting.default) is bool else setting.default
    default = "none" if shown == "" else f"`{shown}`"
    origin = "Kafka" if setting.from_kafka else "Coterie"
    cells = (f"`{setting.key}`", default, setting.expected, origin, setting.help)
    return f"| {' | '.join(cells)} |"


def test_reference_lists_every_setting() -> None:
    lines = REFERENCE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [reference_row(setting) for setting in SETTINGS]
