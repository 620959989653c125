"""Every request code of both servers, asked by nobody, a stranger, a reader, the right user and an administrator.

Generated from the permission table: what a request needs comes from there, the requests come from here, and the answers
from real servers. A code without a row fails.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyromq.auth.gate import Gate
from pyromq.auth.needs import Need, Scene
from pyromq.auth.permissions import PERMISSIONS
from pyromq.auth.rules import ALL, READ_ONLY, Action, Decision, Entry, Kind, Pattern, Resource, Rules
from pyromq.auth.users.access import Access, Credentials, User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.broker.standalone import Standalone
from pyromq.filtersrv.config import FilterServerConfig
from pyromq.filtersrv.server import FilterServer
from pyromq.protocol.bodies.auth import AclInfo, UserInfo
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumerData, HeartbeatData, SubscriptionData
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from pyromq.protocol.bodies.offsets import QueueLook, QueueRun
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody
from pyromq.protocol.bodies.queues import LockBatchRequest, QueryAssignmentRequest, SetMessageRequestMode
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigList
from pyromq.protocol.codes import RequestCode, ResponseCode, request_name
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.handles.recall import RecallHandle, encode_recall_handle
from pyromq.protocol.message import MessageQueue
from tests.integration.broker.servers import Peer
from tests.integration.security.secured import TIMEOUT, Signer, run, secured

TOPIC, GROUP, CLUSTER = "orders", "readers", "DefaultCluster"
WHO = {name: Credentials(name, f"{name}-secret-1") for name in ("root", "right", "reader", "stranger")}
DENIALS = ("authentication", "User:", "is for super users only")

FIELDS = {
    "topic": TOPIC, "b": TOPIC, "a": "writers", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
    "producerGroup": "writers", "consumerGroup": GROUP, "group": GROUP, "groupName": GROUP, "srcGroup": GROUP,
    "destGroup": "others", "compareGroup": GROUP, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "queueOffset": "0", "maxMsgNums": "1",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "1", "subscription": "*", "timestamp": "0",
    "beginTimestamp": "0", "endTimestamp": "1", "key": "k", "maxNum": "1", "delayLevel": "1", "clientID": "nobody",
    "clientId": "nobody", "clientAddr": "nobody", "tranStateTableOffset": "0", "commitOrRollback": "8",
    "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false",
    "isForce": "true", "isOrder": "false", "statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC, "index": "0",
    "count": "1", "readable": "true", "invisibleTime": "1000", "pollTime": "0", "bornTime": "1", "initMode": "0",
    "extraInfo": "0 1 1000 0 0 broker-a 0 0", "clusterName": CLUSTER, "cluster": CLUSTER, "brokerName": "broker-z",
    "brokerAddr": "127.0.0.1:1", "brokerId": "0", "haServerAddr": "", "namespace": "n", "value": "v",
    "username": "carol", "subject": "User:carol", "accessKey": "carol", "filterServerAddr": "127.0.0.1:1",
    "className": "C", "classCRC": "0", "globalWhiteAddrs": "*",
}  # fmt: skip
BODIES: dict[int, Body] = {
    RequestCode.LOOK_AT_QUEUES: QueueLook(runs=[QueueRun(topic=TOPIC, count=1)]),
    RequestCode.HEART_BEAT: HeartbeatData(
        client_id="c",
        consumer_data_set=[ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic=TOPIC)])],
    ),
    RequestCode.LOCK_BATCH_MQ: LockBatchRequest(consumer_group=GROUP, mq_set=[MessageQueue(TOPIC, "broker-a", 0)]),
    RequestCode.UNLOCK_BATCH_MQ: LockBatchRequest(consumer_group=GROUP, mq_set=[MessageQueue(TOPIC, "broker-a", 0)]),
    RequestCode.BATCH_ACK_MESSAGE: BatchAckBody(acks=[BatchAck(consumer_group=GROUP, topic=TOPIC)]),
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentRequest(consumer_group=GROUP, topic=TOPIC),
    RequestCode.SET_MESSAGE_REQUEST_MODE: SetMessageRequestMode(consumer_group=GROUP, topic=TOPIC),
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientBody(group=GROUP, subscription_data=SubscriptionData(topic=TOPIC)),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList(
        topic_config_list=[TopicConfig(topic_name=TOPIC), TopicConfig(topic_name="more")]
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig(group_name=GROUP),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name=GROUP)]
    ),
    RequestCode.AUTH_CREATE_USER: UserInfo(password="carol-secret-1"),  # noqa: S106 - of a test
    RequestCode.AUTH_UPDATE_USER: UserInfo(user_status="enable"),
    RequestCode.AUTH_CREATE_ACL: AclInfo(),
    RequestCode.AUTH_UPDATE_ACL: AclInfo(),
}


@dataclass(frozen=True)
class Place:
    """A running server, its codes and where a message of TOPIC lies."""

    address: str
    gate: Gate
    codes: list[int]
    offset: int
    scene: Scene

    def request(self, code: int) -> Command:
        handle = RecallHandle(TOPIC, "broker-a", 1, "0A000001")
        ext = FIELDS | {
            "offset": str(self.offset),
            "commitLogOffset": str(self.offset),
            "msgId": offset_message_id("127.0.0.1", 10911, self.offset),
            "recallHandle": encode_recall_handle(handle),
        }
        body = BODIES[code].encode() if code in BODIES else b"x"
        return Command.request(code, ext=ext, body=body)

    def needs(self, code: int) -> list[Need]:
        request = self.request(code)
        return [need for needs in PERMISSIONS[code].needs for need in needs(request, self.scene)]


def access(right: list[Need]) -> Access:
    """The right user may do one action of each need, the reader may look at everything, the stranger at others' own."""
    users = {name: User(name, each.secret_key) for name, each in WHO.items()}
    users["root"] = User("root", WHO["root"].secret_key, UserType.SUPER)
    exact = tuple(
        Entry(Resource(Kind(need.kind), Pattern.LITERAL, need.name), _first(Action(need.actions)), Decision.ALLOW)
        for need in right
    )
    kinds = (Kind.TOPIC, Kind.GROUP, Kind.CLUSTER, Kind.FILTER)
    looking = tuple(Entry(Resource(kind), READ_ONLY, Decision.ALLOW) for kind in kinds)
    elsewhere = tuple(Entry(Resource(kind, Pattern.PREFIX, "else"), ALL, Decision.ALLOW) for kind in kinds)
    return Access(users, {"right": Rules(_merged(exact)), "reader": Rules(looking), "stranger": Rules(elsewhere)})


def _first(actions: Action) -> Action:
    return next(action for action in Action if action & actions)


def _merged(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    merged: dict[Resource, Entry] = {}
    for entry in entries:
        known = merged.get(entry.resource)
        actions = entry.actions | known.actions if known is not None else entry.actions
        merged[entry.resource] = Entry(entry.resource, actions, entry.decision)
    return tuple(merged.values())


def is_denied(answer: Command) -> bool:
    return answer.code == ResponseCode.NO_PERMISSION and any(text in (answer.remark or "") for text in DENIALS)


@contextlib.asynccontextmanager
async def places(path: Path) -> AsyncIterator[list[Place]]:
    async with secured(path, filter_server_nums="0", recall_message_enable="true") as (server, broker):
        assert broker.core.gate is not None
        assert server.name_server.gate is not None
        directory = broker.core.gate.directory
        assert directory is not None
        directory.access = access([])
        async with Signer(server.broker_address, WHO["root"]) as root:
            peer = Peer(server.broker_address)
            await peer._client.close()
            peer._client = root.client
            stored = await peer.send(TOPIC)
            assert stored.code == ResponseCode.SUCCESS, stored.remark
        scene = Scene(CLUSTER, lambda offset: TOPIC if offset == 0 else None)
        codes = _codes(server)
        yield [
            Place(server.broker_address, broker.core.gate, codes["broker"], 0, scene),
            Place(server.namesrv_address, server.name_server.gate, codes["namesrv"], 0, scene),
        ]


def _codes(server: Standalone) -> dict[str, list[int]]:
    assert server.broker is not None
    return {"broker": sorted(server.broker.request_codes), "namesrv": sorted(server.name_server.request_codes)}


def test_every_code_has_a_row(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with places(tmp_path) as found:
            for place in found:
                missing = [request_name(code) for code in place.codes if code not in PERMISSIONS]
                assert not missing, f"{missing} need a row in the permission table"
                for code in place.codes:
                    permission = PERMISSIONS[code]
                    assert permission.needs or permission.super_only, request_name(code)

    run(scenario())


def test_filter_servers_have_rows_too() -> None:
    async def scenario() -> None:
        server = FilterServer(FilterServerConfig())
        assert server.request_codes <= PERMISSIONS.keys()
        await server.stop()

    run(scenario())


def test_every_code_for_every_kind_of_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with places(tmp_path) as found:
            # The users of this test are in memory only; what requests write into files must not replace them.
            monkeypatch.setattr(AccessStore, "refresh", lambda _store: False)
            for place in found:
                await _try_all(place)

    run(scenario())


async def _try_all(place: Place) -> None:
    assert place.gate.directory is not None
    assert place.gate.guard is not None
    async with contextlib.AsyncExitStack() as stack:
        signers = {
            name: await stack.enter_async_context(Signer(place.address, credentials))
            for name, credentials in [("nobody", None), *WHO.items()]
        }
        # Wrong signatures are limited for an address; here there are many, on purpose.
        place.gate.guard.failures = None

        async def denied(who: str, code: int) -> bool:
            answer = await signers[who].client.call(place.address, place.request(code), TIMEOUT)
            return is_denied(answer)

        for code in place.codes:
            name, permission, needed = request_name(code), PERMISSIONS[code], place.needs(code)
            place.gate.directory.access = access(needed)
            assert await denied("nobody", code), f"{name} served nobody"
            if needed or permission.super_only:
                assert await denied("stranger", code), f"{name} served a stranger"
            may_look = not permission.super_only and all(need.actions & READ_ONLY for need in needed)
            assert await denied("reader", code) == (not may_look), f"{name}: a reader"
            assert await denied("right", code) == permission.super_only, f"{name}: the right user"
            assert not await denied("root", code), f"{name} did not serve an administrator"
            for index in range(len(needed)):
                if needed.count(needed[index]) == 1:
                    place.gate.directory.access = access(needed[:index] + needed[index + 1 :])
                    assert await denied("right", code), f"{name} does without {needed[index]}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (RequestCode.SEND_MESSAGE_V2, {("Topic:orders", Action.PUB)}),
        (RequestCode.PULL_MESSAGE, {("Topic:orders", Action.SUB), ("Group:readers", Action.SUB)}),
        (RequestCode.HEART_BEAT, {("Topic:orders", Action.SUB), ("Group:readers", Action.SUB)}),
        (RequestCode.VIEW_MESSAGE_BY_ID, {("Topic:orders", Action.SUB | Action.GET)}),
        (RequestCode.CONSUMER_SEND_MSG_BACK, {("Group:readers", Action.SUB), ("Topic:orders", Action.SUB)}),
        (RequestCode.END_TRANSACTION, {("Topic:orders", Action.PUB)}),
        (RequestCode.UPDATE_BROKER_CONFIG, {("Cluster:DefaultCluster", Action.UPDATE)}),
        (RequestCode.REGISTER_BROKER, {("Cluster:DefaultCluster", Action.UPDATE)}),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {("Topic:orders", Action.DELETE)}),
        (RequestCode.REGISTER_MESSAGE_FILTER_CLASS, {("Filter:orders", Action.CREATE), ("Topic:orders", Action.SUB),
                                                     ("Group:readers", Action.SUB)}),
    ],
)  # fmt: skip
def test_some_rows_spelled_out(code: int, expected: set[tuple[str, Action]]) -> None:
    scene = Scene(CLUSTER, lambda _offset: TOPIC)
    place = Place("", None, [], 0, scene)  # type: ignore[arg-type]  # only its requests are wanted
    assert {(str(need), need.actions) for need in place.needs(code)} == expected
