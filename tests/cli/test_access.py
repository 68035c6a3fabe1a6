"""How commands prove who they are, and which secrets they keep."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from typer.testing import CliRunner

from coterie_cli.access import http_access, security_of
from coterie_cli.commands import topics
from coterie_cli.main import app
from coterie_cli.node_http import Access, NoAnswerError, RefusedError, ask
from coterie_cli.target import Target
from coterie_client import Sasl, Security, Tls
from coterie_client.errors import ConfigurationError
from coterie_client.wire.tokens import TokenFile

SECRET = "hunter2"  # noqa: S105  # of no account
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Give a file as Kafka's tools have it."""
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=far:1,farther:1\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} required username="ann" password="{SECRET}";\n'
        f"coterie.http.token={SECRET}\n"
    )
    return path


def target_of(monkeypatch: pytest.MonkeyPatch, *words: str, **environ: str) -> Target:
    """The target of a command."""
    found: list[Target] = []

    def take(target: Target, _work: Any) -> tuple[()]:
        found.append(target)
        return ()

    monkeypatch.setattr(topics, "administer", take)
    result = CliRunner().invoke(app, ["topics", "list", *words], env=environ)
    assert result.exit_code == 0, result.output
    return found[0]


# Which cluster


def test_name_that_kafkas_tools_have_is_no_second_file(properties: Path) -> None:
    file = str(properties)
    for words in (["topics", "list"], ["profile", "set", "a"]):
        both = CliRunner().invoke(app, [*words, "--config-file", file, "--command-config", file])
        assert both.exit_code == 2
        assert "--config-file and --command-config are the same" in both.stderr


def test_file_by_its_other_name_overrules_a_variable(
    properties: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--command-config", str(properties))
    found = target_of(monkeypatch, *words, COTERIE_CONFIG_FILE="/nowhere")
    assert found == Target("far:1,farther:1", config_file=properties)


def test_file_says_which_cluster(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, expected = str(properties), Target("far:1,farther:1", config_file=properties)
    assert target_of(monkeypatch, "--config-file", file) == expected
    assert target_of(monkeypatch, "--command-config", file) == expected
    assert target_of(monkeypatch, COTERIE_CONFIG_FILE=file) == expected


def test_what_is_weaker_than_a_file_does_not_count(
    properties: Path, profiles_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be about another cluster."""
    profiles_file.parent.mkdir()
    profiles_file.write_text('current = "a"\n[profiles.a]\nbootstrap = "near:1"\nuser = "bob"\n')
    file = str(properties)
    target = target_of(
        monkeypatch, "--config-file", file, COTERIE_BOOTSTRAP="near:1", COTERIE_USER="bob"
    )
    assert (target.bootstrap, target.user) == ("far:1,farther:1", None)
    target = target_of(monkeypatch, COTERIE_CONFIG_FILE=file)
    assert (target.bootstrap, target.user) == ("far:1,farther:1", None)


def test_bootstrap_overrules_a_file(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(properties)
    target = target_of(monkeypatch, "--config-file", file, "--bootstrap", "near:1")
    assert (target.bootstrap, target.config_file) == ("near:1", properties)
    target = target_of(monkeypatch, COTERIE_CONFIG_FILE=file, COTERIE_BOOTSTRAP="near:1")
    assert (target.bootstrap, target.config_file) == ("near:1", properties)
    # The user of one cluster is not shown to another.
    target = target_of(monkeypatch, "--bootstrap", "near:1", COTERIE_CONFIG_FILE=file)
    assert (target.bootstrap, target.config_file) == ("near:1", None)


def test_profile_names_a_file(
    properties: Path, profiles_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles_file.parent.mkdir()
    profiles_file.write_text(f'[profiles.a]\nconfig_file = "{properties}"\n')
    target = target_of(monkeypatch, "--profile", "a")
    assert (target.bootstrap, target.config_file) == ("far:1,farther:1", properties)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none.properties")
    result = CliRunner().invoke(app, ["topics", "list", "--config-file", path])
    assert result.exit_code == 2
    assert result.stderr == f"The file {path} can't be read: No such file or directory.\n"


def test_file_that_cannot_be_used_is_named_without_secrets(properties: Path) -> None:
    properties.write_text(properties.read_text().replace(" required", ""))
    words = ["topics", "list", "--bootstrap", "127.0.0.1:1", "--config-file", str(properties)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{properties}: sasl.jaas.config must be")
    assert SECRET not in result.output


# By Kafka's protocol


@pytest.mark.parametrize(
    ("target", "environ", "found"),
    [
        (Target(), {}, Security()),
        (Target(), {"PASSWORD": SECRET, "TOKEN": SECRET, "KEY_PASSWORD": SECRET}, Security()),
        (Target(tls=True), {}, Security(tls=Tls())),
        (
            Target(user="ann", mechanism="SCRAM-SHA-512"),
            {"PASSWORD": SECRET},
            Security(sasl=Sasl("SCRAM-SHA-512", "ann", SECRET)),
        ),
        (
            Target(cert_file=Path("c"), key_file=Path("k")),
            {"KEY_PASSWORD": SECRET},
            Security(tls=Tls(certfile=Path("c"), keyfile=Path("k"), key_password=SECRET)),
        ),
        (
            Target(mechanism="OAUTHBEARER"),
            {"TOKEN": SECRET},
            Security(sasl=Sasl("OAUTHBEARER", token=SECRET)),
        ),
    ],
)
def test_options_and_variables_say_who_it_is(
    target: Target, environ: dict[str, str], found: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(f"COTERIE_{name}", value)
    assert security_of(target) == found


def test_token_file_is_read_for_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(SECRET)
    assert security_of(Target(token_file=path)).sasl == Sasl("OAUTHBEARER", token=TokenFile(path))
    path.unlink()
    with pytest.raises(ConfigurationError, match="can't be read: No such file"):
        security_of(Target(token_file=path))


def test_options_overrule_a_file(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Security(tls=Tls(), sasl=Sasl("PLAIN", "ann", SECRET))
    assert security_of(Target(config_file=properties)) == base
    monkeypatch.setenv("COTERIE_PASSWORD", "other")
    assert security_of(Target(config_file=properties)) == base
    found = security_of(Target(config_file=properties, tls=False, user="bob"))
    assert found == Security(sasl=Sasl("PLAIN", "bob", "other"))


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (Target(user="ann"), "Put ann's password into COTERIE_PASSWORD"),
        (Target(mechanism="OAUTHBEARER"), "Put the token for OAUTHBEARER into COTERIE_TOKEN"),
        (Target(mechanism="SCRAM-SHA-256"), "a user must be given along with SCRAM-SHA-256"),
        (Target(key_file=Path("k")), "must be given along with its certificate"),
    ],
)
def test_what_is_missing_is_said(target: Target, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        security_of(target)


# Over HTTP


@pytest.mark.parametrize(
    ("address", "http", "sent"),
    [
        ("127.0.0.1:9080", None, SECRET),
        ("[::1]:9080", None, SECRET),
        ("localhost:9080", None, SECRET),
        ("10.0.0.1:9080", None, None),
        ("127.0.0.1.example:9080", None, None),
        ("10.0.0.1:9080", "10.0.0.1:9080", SECRET),
        ("https://groups.example:9080", None, SECRET),
    ],
)
def test_token_is_not_sent_in_clear_to_wherever_a_server_says(
    address: str, http: str | None, sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_HTTP_TOKEN", SECRET)
    access = http_access(Target(http=http), address)
    assert (access.token, access.is_withheld) == (sent, sent is None)
    assert (access.tls is not None) == address.startswith("https://")
    assert SECRET not in repr(access)


def test_token_comes_from_a_file_a_variable_or_the_properties(
    properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = "127.0.0.1:9080"
    assert http_access(Target(), here) == Access()
    assert http_access(Target(config_file=properties), here).token == SECRET
    monkeypatch.setenv("COTERIE_HTTP_TOKEN", "of-a-variable")
    assert http_access(Target(config_file=properties), here).token == "of-a-variable"  # noqa: S105
    path = tmp_path / "token"
    path.write_text("of-a-file\n")
    assert http_access(Target(http_token_file=path), here).token == "of-a-file"  # noqa: S105


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff", b"line\nline", "ü".encode()])
def test_file_that_has_no_token_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"The token in {path}"):
        http_access(Target(http_token_file=path), "127.0.0.1:9080")
    path.unlink()
    with pytest.raises(ConfigurationError, match="can't be read: No such file"):
        http_access(Target(http_token_file=path), "127.0.0.1:9080")


class Node(http.server.BaseHTTPRequestHandler):
    """Shows a group to who has the token."""

    def do_GET(self) -> None:
        """Answer."""
        is_known = self.headers["Authorization"] == f"Bearer {SECRET}"
        body = (
            b'{"group":"g","state":"Empty","members":[],"rebalances":[],"history":{}}'
            if is_known
            else b"no"
        )
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
        """Say nothing."""


@pytest.fixture(params=["http", "https"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Give the address of a node that wants a token, and whose certificates to trust."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with http.server.HTTPServer(("127.0.0.1", 0), Node) as server:
        address = f"127.0.0.1:{server.server_port}"
        if request.param == "https":
            import ssl  # noqa: PLC0415  # for this one alone

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("127.0.0.1").configure_cert(context)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            address = f"https://{address}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address, tmp_path / "ca.pem"
        server.shutdown()
        thread.join()


def test_node_is_shown_the_token(node: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    address, authorities = node
    target = Target(http=address, ca_file=authorities)
    path = "/v1/groups/g"
    with pytest.raises(
        RefusedError, match=f"^{'' if 'https' in address else 'http://'}{address} wants a"
    ):
        ask(address, path, timeout_s=60, access=http_access(target, address))
    monkeypatch.setenv("COTERIE_HTTP_TOKEN", SECRET)
    assert ask(address, path, timeout_s=60, access=http_access(target, address))["group"] == "g"


def test_token_that_was_withheld_is_explained(node: tuple[str, Path]) -> None:
    address, authorities = node
    access = http_access(Target(ca_file=authorities), address)
    withheld = Access(is_withheld=True, tls=access.tls)
    with pytest.raises(RefusedError, match="name the address with --http"):
        ask(address, "/v1/groups/g", timeout_s=60, access=withheld)


@pytest.mark.parametrize("node", ["https"], indirect=True)
def test_certificate_of_a_stranger_is_refused(node: tuple[str, Path]) -> None:
    address, _ = node
    with pytest.raises(NoAnswerError, match="its certificate is not accepted"):
        ask(address, "/v1/groups/g", timeout_s=60, access=http_access(Target(), address))


def test_option_takes_an_address_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of(monkeypatch, "--http", "https://h:1/").http == "https://h:1"
    assert target_of(monkeypatch, "--http", "http://h:1/").http == "h:1"
