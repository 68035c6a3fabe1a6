"""HTTP over TLS and with tokens, from one node, from workers, and from outside."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_client.admin import Admin
from tests.live.daemon import HOST, Daemon, coterie, environment, eventually
from tests.live.test_tls import refusal
from tests.support.certificates import Authority

pytestmark = pytest.mark.slow

READING: Final = "may-read-7f3a"
ACTING: Final = "may-act-91bc"
#: So often in a row that each of three workers is asked.
_ASKED: Final = 24


class Guarded:
    """A daemon whose HTTP is answered over TLS and with tokens."""

    def __init__(self, daemon: Daemon, authority: Authority) -> None:
        self.daemon = daemon
        self.ca_file = str(authority.file)
        self._context = authority.client_context()

    def ask(self, path: str, token: str = "", *, method: str = "GET") -> tuple[int, bytes]:
        """The status and the body of an answer."""
        request = urllib.request.Request(  # the scheme is this one
            f"https://{HOST}:{self.daemon.http_port}{path}", method=method
        )
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, context=self._context) as answer:  # noqa: S310
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def lists_all(self) -> bool:
        """Whether groups can be listed, whichever worker is asked.

        Workers that have just begun hand groups to each other, and a list without those that are
        on their way is refused meanwhile.
        """
        return all(self.ask("/v1/groups", READING)[0] == 200 for _ in range(_ASKED))


@pytest.fixture(scope="module", params=[1, 3], ids=["alone", "three workers"])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    (folder / "reading").write_text(f"{READING}\n", encoding="utf-8")
    settings = {
        "http.ssl.keystore.location": str(authority.issue().both),
        "http.read.token.file": str(folder / "reading"),
        "worker.port.offset": 31,
        "workers": request.param,
    }
    environ = {"COTERIE_HTTP_ADMIN_TOKEN": ACTING}
    with Daemon(folder, settings=settings, environ=environ) as daemon:
        guarded = Guarded(daemon, authority)
        eventually(guarded.lists_all, "all workers know who has which groups")
        yield guarded


def test_pages_want_a_token(guarded: Guarded) -> None:
    for path in ("/v1/groups", "/v1/nodes", "/metrics"):
        assert guarded.ask(path)[0] == 401
        assert guarded.ask(path, READING)[0] == 200
    assert guarded.ask("/healthz")[0] == 200
    assert guarded.ask("/readyz")[0] == 200


def test_acting_wants_another_token(guarded: Guarded) -> None:
    page = "/v1/groups/none/rebalance"
    statuses = [guarded.ask(page, token, method="POST")[0] for token in ("", READING, ACTING)]
    assert statuses == [401, 403, 404]


def test_nodes_answer_each_other(guarded: Guarded) -> None:
    """Whichever worker is asked, it has asked the others: they know it by the store's secret."""
    for _ in range(8):
        status, body = guarded.ask("/v1/nodes", READING)
        found: list[dict[str, Any]] = json.loads(body)["nodes"]
        assert status == 200
        assert all(each["ready"] for each in found), found
    pages = [guarded.ask("/v1/groups", READING)[0] for _ in range(8)]
    assert pages == [200] * 8


def test_commands_send_the_token_of_their_environment(guarded: Guarded) -> None:
    at = f"https://{HOST}:{guarded.daemon.http_port}"
    command = [coterie(), "groups", "list", "--json", "--http", at, "--ca-file", guarded.ca_file]
    for environ, code, said in (
        ({"COTERIE_HTTP_TOKEN": READING}, 0, "[]"),
        ({}, 1, "wants a token: put it into COTERIE_HTTP_TOKEN"),
    ):
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(**environ), check=False
        )
        assert done.returncode == code
        assert said in done.stdout + done.stderr


def test_clients_are_told_that_http_is_answered_over_tls(guarded: Guarded) -> None:
    async def ask() -> tuple[str | None, ...]:
        async with Admin(guarded.daemon.address) as admin:
            return await admin.groups.http_addresses()

    for told in asyncio.run(ask()):
        assert told is not None
        assert told.startswith(f"https://{HOST}:")


def test_no_token_is_in_what_the_daemon_wrote(guarded: Guarded) -> None:
    guarded.ask("/v1/groups", READING)
    files = [each for each in guarded.daemon.data_dir.rglob("*") if each.is_file()]
    for token in (READING, ACTING):
        assert token not in guarded.daemon.log()
        for each in files:
            assert token.encode() not in each.read_bytes(), each


def test_address_that_others_reach_wants_tls_and_a_token_or_a_word(tmp_path: Path) -> None:
    wide = ["--listen", f"{HOST}:0", "--http", "0.0.0.0:0"]
    assert "would go to other machines in the clear" in refusal(tmp_path, *wide)
    certificate = f"http.ssl.keystore.location={Authority(tmp_path).issue().both}"
    said = refusal(tmp_path, *wide, "--set", certificate)
    assert "would tell other machines of all groups. Set http.read.token.file, or " in said
    missing = ["--set", certificate, "--set", "http.read.token.file=/none"]
    assert "http.read.token.file = /none can't be read" in refusal(tmp_path, *wide, *missing)
