"""Which part of a node gets which request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.shards import shard_of
from coterie_server.net import Exchange
from coterie_server.serving import discovery
from coterie_server.serving.access_control import KeptRights
from coterie_server.serving.client_quotas import describe_quotas
from coterie_server.serving.context import call_soon
from coterie_server.serving.fan_out import ask_all, divide, in_turns
from coterie_server.serving.unheard_topics import UnheardTopics
from coterie_server.turns import OneByOne

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_server.net.fast_path import Sender
    from coterie_server.serving.cluster import Directory, Neighbour
    from coterie_server.serving.context import PendingRequest
    from coterie_server.serving.discovery import HttpAddresses
    from coterie_server.serving.group_shard import GroupShard
    from coterie_server.serving.topic_service import TopicService

__all__ = ["Router"]


class Router:
    """Hands requests to the shards of groups and to the topics."""

    def __init__(
        self,
        shards: list[GroupShard],
        topics: TopicService,
        directory: Directory,
        http: HttpAddresses,
        look_soon: Callable[[], None],
    ) -> None:
        self._shards = shards
        self._access_control = access_control = topics.make_access_control()
        self.topics = topics
        self._directory = directory
        self._http = http
        self._look_soon = look_soon
        #: Hands out what is left of divided requests: a client may send very many of these.
        self._parts = OneByOne(call_soon)
        self._unheard = UnheardTopics(topics.copy, self._to_group, topics.troubles)
        self.routes: dict[type[Any], Callable[[Exchange], None]] = {
            m.AlterUserScramCredentialsRequest: topics.handle,
            m.ApiVersionsRequest: self._tell_versions,
            m.CreateAclsRequest: topics.handle,
            m.CreatePartitionsRequest: topics.handle,
            m.CreateTopicsRequest: topics.handle,
            m.DeleteAclsRequest: topics.handle,
            m.DeleteGroupsRequest: self._to_several,
            m.DeleteTopicsRequest: topics.handle,
            m.DescribeAclsRequest: topics.handle,
            m.DescribeClientQuotasRequest: lambda e: e.reply(describe_quotas(e.message)),
            m.DescribeGroupsRequest: self._to_several,
            m.DescribeUserScramCredentialsRequest: topics.handle,
            m.FetchRequest: topics.handle,
            m.FindCoordinatorRequest: self._find_coordinator,
            m.HeartbeatRequest: self._to_group,
            m.JoinGroupRequest: self._to_group,
            m.LeaveGroupRequest: self._to_group,
            m.ListGroupsRequest: self._list_groups,
            m.ListOffsetsRequest: topics.handle,
            m.MetadataRequest: topics.handle,
            m.OffsetCommitRequest: self._unheard.take,
            m.OffsetDeleteRequest: self._to_group,
            m.OffsetFetchRequest: lambda e: (
                self._to_several(e) if e.message.groups else self._to_group(e)
            ),
            m.ProduceRequest: topics.handle,
            m.SaslAuthenticateRequest: Exchange.authenticate,
            m.SaslHandshakeRequest: Exchange.authenticate,
            m.SyncGroupRequest: self._to_group,
        }
        if access_control is not None:
            self.routes = access_control.controlled(self.routes)
        else:
            self.routes = KeptRights(directory.cluster).kept(self.routes)

    async def close(self) -> None:
        """Answer who waits, and end what is under way."""
        if self._access_control is not None:
            self._access_control.close()
        self._unheard.close()
        await self.topics.close()

    def group_shard(self, group_id: str) -> GroupShard:
        """The shard of a group."""
        return self._shards[self._shard_of(group_id)]

    def try_heartbeat(
        self, message: m.HeartbeatRequest, sender: Sender
    ) -> m.HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be handled."""
        if self._access_control is not None and not self._access_control.lets_beat(
            sender, message.group_id
        ):
            return None
        return self.group_shard(message.group_id).try_heartbeat(message)

    def _shard_of(self, group_id: str) -> int:
        return shard_of(group_id, len(self._shards))

    def _to_group(self, exchange: Exchange) -> None:
        shard = self._shards[self._shard_of(exchange.message.group_id)]
        if exchange.comes_alone:
            shard.handle_soon(exchange)
        else:
            # It is for its connection to say how many go on in a turn.
            shard.handle(exchange)

    def _to_several(self, exchange: Exchange) -> None:
        divide(exchange, self._shard_of, self._hand_out, in_turns(exchange, self._parts))

    def _hand_out(self, shard: int, part: PendingRequest) -> None:
        self._shards[shard].handle(part)

    def _list_groups(self, exchange: Exchange) -> None:
        """As with Kafka, each node lists its own groups.

        If some are perhaps listed by none, a list of all would lack them without a word.
        """
        is_listed = self._directory.cluster.is_listed
        if not all(each.is_owned or is_listed(each.shard) for each in self._shards):
            self._look_soon()
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            exchange.reply(m.ListGroupsResponse(error_code=error, groups=()))
            return
        own = {shard.shard: shard.group_count for shard in self._shards if shard.is_owned}
        if own:
            ask_all(exchange, own, self._hand_out, in_turns(exchange, self._parts))
        else:
            exchange.reply(m.ListGroupsResponse(groups=()))

    def _tell_versions(self, exchange: Exchange) -> None:
        if exchange.message.shards_are_free:
            self._look_soon()
        http = self._http.told_to(exchange.host, exchange.advertised)
        exchange.reply(discovery.api_versions(exchange.message, exchange.version, http))

    def _find_coordinator(self, exchange: Exchange) -> None:
        def coordinator_of(group_id: str) -> Neighbour | None:
            return self._directory.coordinator(self._shard_of(group_id), exchange)

        message, version = exchange.message, exchange.version
        exchange.reply(discovery.find_coordinator(message, version, coordinator_of))
