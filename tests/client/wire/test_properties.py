"""Kafka's `client.properties` and the environment, in the client's terms."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from coterie_client import Sasl, Security, Tls
from coterie_client.errors import ConfigurationError, ConnectionFailedError
from coterie_client.wire.properties import parse_jaas, parse_properties
from coterie_client.wire.security import Overrides
from coterie_client.wire.tokens import ClientCredentials, TokenFile

SECRET = "hunter2"  # noqa: S105  # of no account
OTHER = "hunter3"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


# Property files


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# a comment\n! another\n\n  # and one more\n", {}),
        ("a=1\nb: 2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a  =  1  \n\tb\t:\t2\t", {"a": "1", "b": "2"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a\\=b=1\na\\ c=2\na\\:d : 3", {"a=b": "1", "a c": "2", "a:d": "3"}),
        ("a=1\\\n   2\\\n   3\nb=4", {"a": "123", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=\\u00fc\\t\\n|\\q\\\\", {"a": "ü\t\n|q\\"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("=1", {"": "1"}),
        ("a=# no comment", {"a": "# no comment"}),
    ],
)
def test_property_files_are_read_as_java_reads_them(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_bad_escape_is_told_by_its_line_alone() -> None:
    with pytest.raises(ConfigurationError, match="line 2 has a malformed") as caught:
        parse_properties(f"a=1\npassword={SECRET}\\u12")
    assert SECRET not in str(caught.value)


# JAAS


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required username="ann" password="a b;c";', {"password": "a b;c"}),
        (f"{PLAIN} Required\n  username='ann'\n  password = x ;", {"password": "x"}),
        (f'{PLAIN} required password="a\\"b\\\\c\\101";', {"password": 'a"b\\cA'}),
        (f'{PLAIN} required /* one */ password="x" // two\n;', {"password": "x"}),
        (f'{PLAIN} required password="";', {"password": ""}),
    ],
)
def test_jaas_is_read_as_java_reads_it(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.title == "PlainLoginModule"
    assert options.items() <= module.options.items()
    assert "a b;c" not in repr(module)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "KafkaClient { };",
        f"{PLAIN} username={SECRET};",
        f"{PLAIN} required username=ann password={SECRET}",
        f'{PLAIN} required password="{SECRET};',
        f"{PLAIN} required password {SECRET};",
        f"{PLAIN} required password==;",
        f"{PLAIN} required password={SECRET}; {PLAIN} required;",
    ],
)
def test_malformed_jaas_is_not_shown(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.jaas\.config must") as caught:
        parse_jaas(text)
    assert SECRET not in str(caught.value)


# From properties to security


def security_of(**properties: str) -> Security:
    """Read properties, whose names are given with underscores."""
    return Security.from_properties({k.replace("_", "."): v for k, v in properties.items()})


def test_nothing_said_is_plaintext() -> None:
    assert security_of(bootstrap_servers="a:1", acks="all") == Security()


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)],
)
def test_users_with_passwords(mechanism: str, module: str) -> None:
    found = security_of(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_jaas_config=f'{module} required username="ann" password="{SECRET}";',
    )
    assert found == Security(sasl=Sasl(mechanism, "ann", SECRET))
    assert SECRET not in repr(found)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_sasl_is_left_alone_where_the_protocol_has_none(protocol: str) -> None:
    assert security_of(security_protocol=protocol, sasl_mechanism="GSSAPI").sasl is None


def test_hostname_need_not_match_if_no_algorithm_says_so() -> None:
    protocol = "SASL_SSL".removeprefix("SASL_")
    off = security_of(security_protocol=protocol, ssl_endpoint_identification_algorithm="")
    assert off == Security(tls=Tls(verify_hostname=False))
    assert security_of(security_protocol=protocol) == Security(tls=Tls())


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give an authority and a certificate of it, as files."""
    folder = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    own = authority.issue_cert("ann.example")
    files = {name: folder / f"{name}.pem" for name in ("ca", "own", "key", "chain")}
    authority.cert_pem.write_to_path(files["ca"])
    own.private_key_and_cert_chain_pem.write_to_path(files["own"])
    own.private_key_pem.write_to_path(files["key"])
    files["chain"].write_bytes(b"".join(pem.bytes() for pem in own.cert_chain_pems))
    return files


@pytest.mark.parametrize("kind", [{}, {"ssl_truststore_type": "PEM", "ssl_keystore_type": "PEM"}])
def test_pem_files(pems: dict[str, Path], kind: dict[str, str]) -> None:
    found = security_of(
        security_protocol="SSL",
        ssl_truststore_location=str(pems["ca"]),
        ssl_keystore_location=str(pems["own"]),
        **kind,
    )
    assert found == Security(tls=Tls(cafile=str(pems["ca"]), certfile=str(pems["own"])))
    context = found.tls_context()
    assert context is not None
    assert len(context.get_ca_certs()) == 1


def test_pem_text_whose_lines_a_file_of_properties_has_joined(pems: dict[str, Path]) -> None:
    joined = {name: " ".join(path.read_text().split("\n")) for name, path in pems.items()}
    found = Security.from_properties(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": joined["ca"],
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": joined["key"],
            "ssl.keystore.certificate.chain": joined["chain"],
        }
    )
    context = found.tls_context()
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) == 1
    key = "".join(pems["key"].read_text().split("\n")[1:-2])
    assert key[:40] not in repr(found)


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism must be one of .* it is GSSAPI"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config must be given along with PLAIN",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{PLAIN} required username=ann password={SECRET};",
            },
            "must have the ScramLoginModule for SCRAM-SHA-256",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f"{PLAIN} required password={SECRET};",
            },
            "lacks the username",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "token.endpoint.url must say where tokens",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{BEARER} required unsecuredLoginStringClaim_sub=ann"
                " unsecuredLoginLifetimeSeconds=soon;",
            },
            "unsecuredLoginLifetimeSeconds must be a whole number",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.location": "trust.jks",
                "ssl.truststore.type": "JKS",
            },
            "truststore.type must be PEM, and the store is JKS: export it with 'keytool",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.location": "own.p12",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.password": SECRET,
            },
            "keystore.type must be PEM, and the store is PKCS12: export it with .*openssl",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": SECRET},
            "must be given together",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": SECRET},
            "must be PEM text",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "must be https, or empty",
        ),
    ],
)
def test_what_cannot_be_used_is_said_without_secrets(
    properties: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        Security.from_properties(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert SECRET not in str(caught.value)


def test_store_that_is_no_pem_is_refused_without_a_type_too(tmp_path: Path) -> None:
    """JKS is Kafka's default."""
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigurationError, match="the store is JKS or PKCS12"):
        security_of(security_protocol="SSL", ssl_truststore_location=str(store))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.properties can't be read: No such file"):
        Security.from_properties(tmp_path / "none.properties")


def test_file_is_latin_1_as_javas(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    text = f"{PLAIN} required username=ann password=pässword;"
    lines = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={text}")
    path.write_bytes("\n".join(lines).encode("latin-1"))
    assert Security.from_properties(path).sasl == Sasl("PLAIN", "ann", "pässword")


# Tokens


def bearer_of(jaas: str = "", **properties: str) -> Any:
    """Read where tokens come from."""
    found = security_of(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        **({"sasl_jaas_config": f"{BEARER} required {jaas};"} if jaas else {}),
        **properties,
    )
    assert found.sasl is not None
    return found.sasl


def test_token_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("first\n")
    sasl = bearer_of(sasl_oauthbearer_token_endpoint_url=path.as_uri())
    assert sasl.token() == "first"
    path.write_text("second")
    assert sasl.token() == "second"


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff", b"x" * 200_000])
def test_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConnectionFailedError, match=r"holds no bearer token|can't be read"):
        TokenFile(path)()


def test_unsecured_tokens_of_kafkas_own_for_development() -> None:
    sasl = bearer_of('unsecuredLoginStringClaim_sub="ann" extension_traceId="7"')
    header, claims, signature = sasl.token().split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    found = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (found["sub"], found["exp"] - found["iat"], signature) == ("ann", 3600, "")
    assert sasl.extensions == {"traceId": "7"}


class AuthorizationServer(http.server.BaseHTTPRequestHandler):
    """Gives tokens to one client."""

    answer: tuple[int, bytes] = (200, b'{"access_token": "given", "expires_in": 60}')
    asked: tuple[str, str, bytes] = ("", "", b"")

    def do_POST(self) -> None:
        """Answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked = (self.path, self.headers["Authorization"], body)
        status, answer = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
        """Say nothing."""


@contextmanager
def authorization_server(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server that gives tokens."""
    with http.server.HTTPServer(("127.0.0.1", 0), AuthorizationServer) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_port}/oauth/token?tenant=1"
        server.shutdown()
        thread.join()


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Give the URL of a server that gives tokens."""
    with authorization_server() as url:
        yield url


def test_authorization_server_is_trusted_as_the_module_says(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    client = f'clientId="id" clientSecret="{SECRET}"'
    trusting = f'{client} ssl.truststore.location="{tmp_path / "ca.pem"}"'
    with authorization_server(context) as url:
        given = bearer_of(trusting, sasl_oauthbearer_token_endpoint_url=url)
        assert given.token() == "given"
        with pytest.raises(ConnectionFailedError, match="does not answer"):
            bearer_of(client, sasl_oauthbearer_token_endpoint_url=url).token()


def test_token_of_an_authorization_server(endpoint: str) -> None:
    sasl = bearer_of(
        f'clientId="my id" clientSecret="{SECRET}" scope="groups"',
        sasl_oauthbearer_token_endpoint_url=endpoint,
    )
    assert SECRET not in repr(sasl.token)
    assert sasl.token() == "given"
    path, authorization, body = AuthorizationServer.asked
    assert path == "/oauth/token?tenant=1"
    assert base64.b64decode(authorization.removeprefix("Basic ")) == f"my+id:{SECRET}".encode()
    assert body == b"grant_type=client_credentials&scope=groups"


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, b'{"error": "hunter2"}'), (302, b""), (200, b"{}"), (200, b'"x"'), (200, b"\xff")],
)
def test_authorization_server_without_a_token(
    endpoint: str, status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AuthorizationServer, "answer", (status, body))
    with pytest.raises(ConnectionFailedError, match="token endpoint") as caught:
        ClientCredentials(endpoint, "id", SECRET)()
    assert SECRET not in str(caught.value)


def test_authorization_server_that_is_not_there() -> None:
    with pytest.raises(ConnectionFailedError, match="does not answer"):
        ClientCredentials("http://127.0.0.1:1/token", "id", SECRET)()


@pytest.mark.parametrize("url", ["ftp://host/x", "https:///x", "https://u:p@host/x", "host"])
def test_url_that_is_none_of_an_endpoint(url: str) -> None:
    with pytest.raises(ConfigurationError, match="must be https://HOST/PATH"):
        ClientCredentials(url, "id", SECRET)


# The environment, and options over a file


def test_environment_without_variables_is_plaintext() -> None:
    assert Security.from_environment({"PATH": "/bin", "COTERIE_USER": ""}) == Security()


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (
            {"USER": "ann", "PASSWORD": SECRET, "MECHANISM": "SCRAM-SHA-512"},
            Security(sasl=Sasl("SCRAM-SHA-512", "ann", SECRET)),
        ),
        ({"USER": "ann", "PASSWORD": SECRET}, Security(sasl=Sasl("PLAIN", "ann", SECRET))),
        ({"TOKEN": "abc"}, Security(sasl=Sasl("OAUTHBEARER", token="abc"))),  # noqa: S106
        (
            {"TOKEN_FILE": "t"},
            Security(sasl=Sasl("OAUTHBEARER", token=TokenFile(Path("t")))),
        ),
        ({"TLS": "true"}, Security(tls=Tls())),
        ({"TLS": "false", "CA_FILE": "ca.pem"}, Security()),
        (
            {"CA_FILE": "ca.pem", "CERT_FILE": "c", "KEY_FILE": "k", "KEY_PASSWORD": SECRET},
            Security(tls=Tls(cafile="ca.pem", certfile="c", keyfile="k", key_password=SECRET)),
        ),
        ({"PASSWORD": SECRET}, Security()),
    ],
)
def test_environment(variables: dict[str, str], found: Security) -> None:
    environ = {f"COTERIE_{name}": value for name, value in variables.items()}
    assert Security.from_environment(environ) == found
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"TLS": "maybe"}, "COTERIE_TLS must be true or false"),
        ({"USER": "ann"}, "the password of ann must be given"),
        ({"MECHANISM": "OAUTHBEARER"}, "a token must be given"),
        ({"MECHANISM": "SCRAM-SHA-256"}, "a user must be given along with SCRAM-SHA-256"),
        ({"MECHANISM": "OAUTHBEARER", "USER": "ann"}, "a user must not be given"),
        ({"KEY_FILE": "k"}, "must be given along with its certificate"),
    ],
)
def test_environment_that_makes_no_sense(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        Security.from_environment({f"COTERIE_{name}": value for name, value in variables.items()})


FILE = Security(
    Tls(cafile="ca.pem", certfile="own.pem", key_password=SECRET, verify_hostname=False),
    Sasl("SCRAM-SHA-256", "ann", SECRET),
)


@pytest.mark.parametrize(
    ("by", "found"),
    [
        (Overrides(), FILE),
        (Overrides(password=OTHER), FILE),
        (Overrides(tls=False), Security(sasl=FILE.sasl)),
        (
            Overrides(username="bob", password=OTHER),
            Security(FILE.tls, Sasl("SCRAM-SHA-256", "bob", OTHER)),
        ),
        (
            Overrides(mechanism="SCRAM-SHA-512"),
            Security(FILE.tls, Sasl("SCRAM-SHA-512", "ann", SECRET)),
        ),
        (
            Overrides(token=OTHER),
            Security(FILE.tls, Sasl("OAUTHBEARER", token=OTHER)),
        ),
        (
            Overrides(certfile="other.pem"),
            Security(Tls(cafile="ca.pem", certfile="other.pem", verify_hostname=False), FILE.sasl),
        ),
    ],
)
def test_options_overrule_a_file(by: Overrides, found: Security) -> None:
    assert FILE.overridden(by) == found


def test_file_that_the_environment_names(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n")
    environ = {"COTERIE_CONFIG_FILE": str(path), "COTERIE_CA_FILE": "ca.pem"}
    assert Security.from_environment(environ) == Security(tls=Tls(cafile="ca.pem"))
