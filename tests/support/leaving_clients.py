"""Clients that come and go, each in its way, well behaved or not."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from coterie_client.wire.sasl import ScramClient
from coterie_protocol import FrameReader, decode_response, encode_request, response_class
from coterie_protocol import messages as m
from coterie_protocol.schema import declaration_of
from tests.live.wire import join_request
from tests.support.certificates import Authority

__all__ = [
    "CLIENTS",
    "FEW",
    "HOST",
    "HTTP",
    "HTTPS",
    "OPEN",
    "PATIENCE_S",
    "SASL",
    "TLS",
    "Client",
    "Serving",
]

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 30.0
#: What a server listens for: anyone, few at a time, those who log in by a mechanism or over TLS.
OPEN, FEW, SASL, TLS = "OPEN", "FEW", "SASL", "TLS"
HTTP, HTTPS = "http", "https"

Client = Callable[["Serving"], None]

CLIENTS: Final[list[Client]] = []


def client(play: Client) -> Client:
    """Have it be one of them."""
    CLIENTS.append(play)
    return play


@dataclass(frozen=True, slots=True)
class Serving:
    """Where a server listens, and whom to trust."""

    ports: dict[str, int]
    authority: Authority

    def call(self, listener: str) -> Call:
        """Connect to a listener."""
        connected = socket.create_connection((HOST, self.ports[listener]), timeout=PATIENCE_S)
        return Call(connected)

    def begin_login(self, mechanism: str) -> Call:
        """Connect to where clients log in, and agree on a mechanism."""
        call = self.call(SASL)
        call.ask(m.SaslHandshakeRequest(mechanism=mechanism), 1)
        return call

    def call_securely(self, listener: str) -> Call:
        """Connect to a listener over TLS."""
        context = self.authority.client_context()
        return Call(context.wrap_socket(self.call(listener).socket, server_hostname=HOST))


@dataclass(frozen=True, slots=True)
class Call:
    """A client's connection."""

    socket: socket.socket

    def say(self, *pieces: bytes) -> None:
        """Send bytes."""
        for each in pieces:
            self.socket.sendall(each)

    def ask(self, message: Any, version: int) -> Any:
        """Send a request, and read the answer."""
        self.say(encode_request(message, version, 7))
        api, frames = declaration_of(type(message)).api, FrameReader()
        assert api is not None
        while not (payloads := frames.feed(piece := self.socket.recv(65_536))):
            assert piece
        return decode_response(response_class(api), version, payloads[0])[1]

    def say_token(self, token: bytes) -> None:
        """Send a message of a mechanism."""
        self.say(encode_request(m.SaslAuthenticateRequest(auth_bytes=token), 2, 8))

    def ask_token(self, token: bytes) -> bytes:
        """Send a message of a mechanism, and read the answer."""
        answer: bytes = self.ask(m.SaslAuthenticateRequest(auth_bytes=token), 2).auth_bytes
        return answer

    def leave(self) -> None:
        """Hang up."""
        self.socket.close()

    def reset(self) -> None:
        """Hang up at once, with what is unread."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def await_end(self) -> None:
        """Read until the server hangs up."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while self.socket.recv(65_536):
                pass
        self.socket.close()


# Clients of Kafka's protocol


@client
def comes_and_goes(at: Serving) -> None:
    at.call(OPEN).leave()


@client
def asks_and_goes(at: Serving) -> None:
    call = at.call(OPEN)
    call.ask(m.ApiVersionsRequest(), 0)
    call.leave()


@client
def resets(at: Serving) -> None:
    call = at.call(OPEN)
    call.say(encode_request(m.ApiVersionsRequest(), 0, 1) * 50)
    call.reset()


@client
def speaks_no_kafka(at: Serving) -> None:
    call = at.call(OPEN)
    call.say(b"\xff" * 100_000)
    call.await_end()


@client
def sends_request_that_cannot_be_read(at: Serving) -> None:
    call = at.call(OPEN)
    payload = b"\0\x08\0\x05\0\0\0\1\0\1a\xff\xff" + bytes([7]) * 100_000
    call.say(len(payload).to_bytes(4) + payload)
    call.await_end()


@client
def stops_within_a_request(at: Serving) -> None:
    call = at.call(OPEN)
    call.say((500_000).to_bytes(4), bytes(300_000))
    call.leave()


@client
def does_not_read(at: Serving) -> None:
    call = at.call(OPEN)
    call.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    call.say(encode_request(m.ApiVersionsRequest(), 0, 1) * 3_000)
    call.leave()


@client
def are_too_many(at: Serving) -> None:
    for each in [at.call(FEW) for _ in range(6)]:
        each.leave()


@client
def asks_about_all_groups(at: Serving) -> None:
    call, names = at.call(OPEN), tuple(f"g{number}" for number in range(20))
    call.ask(m.ListGroupsRequest(), 3)
    call.ask(m.DescribeGroupsRequest(groups=names), 4)
    call.ask(m.DeleteGroupsRequest(groups_names=names), 1)
    call.leave()


@client
def asks_for_what_there_is_not(at: Serving) -> None:
    call = at.call(OPEN)
    call.ask(m.HeartbeatRequest(group_id="none", generation_id=1, member_id="m"), 3)
    call.ask(m.OffsetFetchRequest(group_id="none", topics=None), 5)
    call.ask(m.DeleteTopicsRequest(topic_names=("none",), timeout_ms=1000), 3)
    call.leave()


@client
def goes_while_others_are_awaited(at: Serving) -> None:
    """Its JoinGroup waits for the first member, which goes as well."""
    join = join_request("parked", session_ms=200, rebalance_ms=200, metadata=bytes(50_000))
    calls = [at.call(OPEN) for _ in range(2)]
    for each in calls:
        each.say(encode_request(join, 3, 1))
    for each in calls:
        each.leave()


# Clients that log in


@client
def logs_in(at: Serving) -> None:
    call = at.begin_login("PLAIN")
    call.ask_token(b"\0ann\0pencil")
    call.ask(m.MetadataRequest(topics=()), 1)
    call.leave()


@client
def goes_before_login(at: Serving) -> None:
    at.call(SASL).leave()


@client
def goes_within_login(at: Serving) -> None:
    call = at.begin_login("PLAIN")
    call.leave()


@client
def goes_within_a_message(at: Serving) -> None:
    call = at.begin_login("PLAIN")
    call.say((400_000).to_bytes(4), bytes(300_000))
    call.leave()


@client
def does_not_log_in(at: Serving) -> None:
    call = at.call(SASL)
    call.say(encode_request(m.MetadataRequest(topics=()), 1, 1))
    call.await_end()


@client
def asks_for_an_unknown_mechanism(at: Serving) -> None:
    call = at.call(SASL)
    call.ask(m.SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    call.await_end()


@client
def has_a_large_password(at: Serving) -> None:
    call = at.begin_login("PLAIN")
    call.say_token(b"\0ann\0" + b"x" * 490_000)
    call.await_end()


@client
def has_a_wrong_password(at: Serving) -> None:
    call = at.begin_login("PLAIN")
    call.say_token(b"\0ann\0pen")
    call.await_end()


@client
def does_not_wait_for_the_check(at: Serving) -> None:
    call = at.begin_login("PLAIN")
    call.say_token(b"\0ann\0pen")
    call.leave()


@client
def stops_within_scram(at: Serving) -> None:
    call = at.begin_login("SCRAM-SHA-256")
    call.ask_token(_scram("pencil").first())
    call.leave()


@client
def has_a_wrong_password_for_scram(at: Serving) -> None:
    call, client = at.begin_login("SCRAM-SHA-256"), _scram("pen")
    call.say_token(client.final(call.ask_token(client.first())))
    call.await_end()


def _scram(password: str) -> ScramClient:
    return ScramClient(hashlib.sha256().name, "ann", password, "nonce")


@client
def shows_a_bad_token(at: Serving) -> None:
    call = at.begin_login("OAUTHBEARER")
    call.ask_token(b"n,,\x01auth=Bearer " + b"e30." * 3_000 + b"e30\x01\x01")
    call.say_token(b"\x01")
    call.await_end()


# Clients that speak TLS, or should


@client
def speaks_tls(at: Serving) -> None:
    call = at.call_securely(TLS)
    call.ask(m.ApiVersionsRequest(), 0)
    call.leave()


@client
def speaks_no_kafka_over_tls(at: Serving) -> None:
    call = at.call_securely(TLS)
    call.say(b"\xff" * 3_000)
    call.await_end()


@client
def speaks_no_tls(at: Serving) -> None:
    call = at.call(TLS)
    call.say(encode_request(m.ApiVersionsRequest(), 0, 1))
    call.await_end()


@client
def distrusts_the_certificate(at: Serving) -> None:
    _distrust(at, TLS)


@client
def goes_within_the_handshake(at: Serving) -> None:
    call = at.call(TLS)
    call.say(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    call.leave()


@client
def are_too_many_that_shake_hands(at: Serving) -> None:
    calls = [at.call(TLS) for _ in range(12)]
    for each in calls[:2]:
        each.await_end()
    for each in calls[2:]:
        each.leave()


def _distrust(at: Serving, listener: str) -> None:
    call = at.call(listener)
    with contextlib.suppress(ssl.SSLError):
        ssl.create_default_context().wrap_socket(call.socket, server_hostname=HOST)
    call.leave()


# Clients of HTTP


def _request(line: str, *headers: str, body: bytes = b"") -> bytes:
    lines = (f"{line} HTTP/1.1", f"Host: {HOST}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def _over_http(at: Serving, *pieces: bytes) -> None:
    call = at.call(HTTP)
    call.say(*pieces)
    call.await_end()


@client
def looks_at_a_page(at: Serving) -> None:
    _over_http(at, _request("GET /v1/groups", "Connection: close"))


@client
def looks_for_no_group(at: Serving) -> None:
    _over_http(at, _request("GET /v1/groups/none", "Connection: close"))


@client
def looks_for_no_page(at: Serving) -> None:
    _over_http(at, _request("GET /v1/nothing", "Connection: close"))


@client
def allows_itself_too_much(at: Serving) -> None:
    _over_http(at, _request("PUT /v1/groups", "Connection: close"))


@client
def sends_much_to_a_page(at: Serving) -> None:
    size = 900_000
    headers = (f"Content-Length: {size}", "Connection: close")
    line = "POST /v1/groups/g/offsets/reset"
    _over_http(at, _request(line, *headers, body=b"x" * size))


@client
def stops_within_what_it_sends(at: Serving) -> None:
    call = at.call(HTTP)
    call.say(_request("POST /v1/groups/g/offsets/reset", "Content-Length: 500000"), bytes(300_000))
    call.leave()


@client
def speaks_no_http(at: Serving) -> None:
    _over_http(at, b"\x16\x03\x01 hello\r\n\r\n" + b"x" * 100_000)


@client
def sends_a_bad_header(at: Serving) -> None:
    _over_http(at, _request("GET /", "bad header"))


@client
def sends_a_long_line(at: Serving) -> None:
    _over_http(at, _request(f"GET /{'a' * 200_000}"))


@client
def sends_a_bad_chunk(at: Serving) -> None:
    chunked = _request("POST /v1/groups/g/offsets/reset", "Transfer-Encoding: chunked")
    _over_http(at, chunked + b"zz\r\n" + b"x" * 200_000)


@client
def sends_what_cannot_be_unpacked(at: Serving) -> None:
    heads = ("Content-Encoding: deflate", "Content-Length: 500000", "Connection: close")
    for line in ("POST /v1/groups/g/offsets/reset", "POST /none"):
        _over_http(at, _request(line, *heads) + b"\xff" * 500_000)


@client
def expects_what_is_not_known(at: Serving) -> None:
    _over_http(at, _request(f"GET /{'a' * 100_000}", "Expect: nonsense", "Connection: close"))


@client
def sends_bad_requests_behind_good_ones(at: Serving) -> None:
    _over_http(at, _request("GET /v1/groups") * 50 + b"junk junk\r\n\r\n")


@client
def wants_another_protocol(at: Serving) -> None:
    call = at.call(HTTP)
    upgrade = _request("GET /v1/groups", "Upgrade: websocket", "Connection: Upgrade")
    call.say(upgrade + b"junk" * 50_000)
    call.await_end()


@client
def does_not_read_pages(at: Serving) -> None:
    call = at.call(HTTP)
    call.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    call.say(_request("GET /metrics") * 60)
    call.leave()


@client
def watches_all_groups(at: Serving) -> None:
    call = at.call(HTTP)
    call.say(_request("GET /v1/watch"))
    assert call.socket.recv(1)
    call.leave()


@client
def resets_before_it_can_watch(at: Serving) -> None:
    for _ in range(10):
        call = at.call(HTTP)
        call.say(_request("GET /v1/watch"))
        call.reset()


@client
def watches_a_group(at: Serving) -> None:
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
    committing = at.call(OPEN)
    committing.ask(m.OffsetCommitRequest(group_id="g", topics=(topic,)), 5)
    committing.leave()
    call = at.call(HTTP)
    call.say(_request("GET /v1/groups/g/watch"))
    assert call.socket.recv(1)
    call.leave()


@client
def speaks_https(at: Serving) -> None:
    call = at.call_securely(HTTPS)
    call.say(_request("GET /v1/groups", "Connection: close"))
    call.await_end()


@client
def speaks_http_where_https_is_spoken(at: Serving) -> None:
    call = at.call(HTTPS)
    call.say(_request("GET /v1/groups"))
    call.await_end()


@client
def distrusts_the_certificate_of_https(at: Serving) -> None:
    _distrust(at, HTTPS)


@client
def are_too_many_that_shake_hands_for_https(at: Serving) -> None:
    calls = [at.call(HTTPS) for _ in range(70)]
    calls[0].await_end()
    for each in calls[1:]:
        each.leave()
