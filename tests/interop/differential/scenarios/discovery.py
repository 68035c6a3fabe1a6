"""What a client asks before anything else, and what no client should ask."""

from __future__ import annotations

from typing import Final

from coterie_protocol import API_VERSIONS, ApiKey
from coterie_protocol import messages as m
from tests.interop.differential.differences import GROUPS_ONLY, VERSIONS
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Exchange, Script
from tests.interop.differential.transcript import ANY
from tests.interop.differential.wire import raw_request

_ONLY_GROUPS: Final = "Coterie coordinates consumer groups, not transactions or share groups."


#: Where Kafka 4.3 speaks other versions than Coterie.
_KAFKAS: Final[dict[ApiKey, list[int]]] = {
    ApiKey.PRODUCE: [0, 13],
    ApiKey.FETCH: [4, 18],
    ApiKey.LIST_OFFSETS: [1, 11],
    ApiKey.METADATA: [0, 13],
    ApiKey.OFFSET_COMMIT: [2, 10],
    ApiKey.OFFSET_FETCH: [1, 10],
    ApiKey.CREATE_TOPICS: [2, 7],
    ApiKey.DELETE_TOPICS: [1, 6],
    ApiKey.DESCRIBE_ACLS: [1, 3],
    ApiKey.CREATE_ACLS: [1, 3],
    ApiKey.DELETE_ACLS: [1, 3],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [0, 0],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [0, 0],
}


@scenario(each=ApiKey.API_VERSIONS)
async def versions_are_told(s: Script, version: int) -> None:
    """Which APIs are spoken in which versions, and nothing of a cluster's features."""
    asked = m.ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = await s.learn(asked, version)
    told = {entry.api_key: [entry.min_version, entry.max_version] for entry in answer.api_keys}
    s.note("error", answer.error_code)
    for api, ours in API_VERSIONS.items():
        spoken = s.note(api.title, told.pop(api, None))
        coteries = [ours.first, ours.last]
        if _KAFKAS.get(api, coteries) != coteries:
            spoken.differs(VERSIONS, kafka=_KAFKAS[api], coterie=coteries)
    s.note("other APIs", sorted(told)).differs(VERSIONS, kafka=ANY, coterie=[])
    if version >= 3:
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        s.note("features", levels).differs(VERSIONS, kafka=ANY, coterie={})


@scenario(each=ApiKey.API_VERSIONS, since=3)
async def clients_with_odd_names(s: Script, version: int) -> None:
    """A client's name and version have rules since version 3."""
    for name, number in (("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.0_")):
        asked = m.ApiVersionsRequest(client_software_name=name, client_software_version=number)
        answer = await s.learn(asked, version)
        s.note(f"{name!r} {number!r}", [answer.error_code, len(answer.api_keys)])


@scenario()
async def unknown_versions_of_api_versions(s: Script) -> None:
    """ApiVersions in a version of the future is answered in version 0 with what there is."""
    connection = await s.connect("raw")
    no_tagged_fields = b"\0"
    frame = raw_request(ApiKey.API_VERSIONS, 99, no_tagged_fields)
    exchange = Exchange(
        s, "ApiVersions v99", connection.send_bytes(frame, m.ApiVersionsResponse, 0), _ignore
    )
    await exchange
    await s.learn(m.ApiVersionsRequest(), 0)
    s.note("the connection goes on", (await connection.send(m.ApiVersionsRequest(), 0)).error_code)


@scenario()
async def unknown_apis_and_versions(s: Script) -> None:
    """Anything else that is not known ends the connection."""
    for api, version in ((ApiKey.HEARTBEAT, 99), (ApiKey.JOIN_GROUP, 10), (9999, 0), (-1, 0)):
        connection = await s.connect("raw")
        future = connection.send_bytes(raw_request(api, version), m.HeartbeatResponse, 0)
        await Exchange(s, f"API {api:d} v{version}", future, _ignore)


@scenario()
async def garbage(s: Script) -> None:
    """A request that can't be read ends the connection."""
    for body in (b"", b"\xff" * 20):
        connection = await s.connect("raw")
        frame = raw_request(ApiKey.HEARTBEAT, 3, body)
        future = connection.send_bytes(frame, m.HeartbeatResponse, 3)
        await Exchange(s, f"{len(body)} bytes", future, _ignore)


@scenario(each=ApiKey.FIND_COORDINATOR)
async def coordinators_are_found(s: Script, version: int) -> None:
    """Any name is a group's, the empty one, too."""
    for keys in ((s.group,), ("",), ("é ☃",)):
        await s.ask(_find(version, keys), version)
    if version >= 4:
        await s.ask(_find(version, ("b", "a", "b")), version)
        await s.ask(_find(version, ()), version)


@scenario(each=ApiKey.FIND_COORDINATOR, since=1)
async def coordinators_of_other_things(s: Script, version: int) -> None:
    """Keys that are neither groups nor transactions are refused."""
    for key_type in (2, 9, -1):
        reply = await s.ask(_find(version, ("key",), key_type), version)
        path = "error_message" if version < 4 else "coordinators[0].error_message"
        reply.differs(GROUPS_ONLY, path, kafka=ANY, coterie=_ONLY_GROUPS)


@scenario()
async def coordinators_of_transactions(s: Script) -> None:
    """Kafka asks to try again, until it has made a topic for them; Coterie has none."""
    reply = await s.ask(_find(3, ("transaction",), 1), 3)
    reply.differs(GROUPS_ONLY, "error_code", kafka=15, coterie=42)
    text = "The coordinator is not available."
    reply.differs(GROUPS_ONLY, "error_message", kafka=text, coterie=_ONLY_GROUPS)


def _find(version: int, keys: tuple[str, ...], key_type: int = 0) -> m.FindCoordinatorRequest:
    if version < 4:
        return m.FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return m.FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type)


@scenario(each=ApiKey.SASL_HANDSHAKE)
async def nobody_authenticates(s: Script, version: int) -> None:
    """On a listener without authentication, SASL is out of place."""
    await s.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), version)
    await s.ask(m.SaslAuthenticateRequest(auth_bytes=b"secret"), version)


def _ignore(_message: object) -> None:
    pass
