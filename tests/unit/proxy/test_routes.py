"""Routes and assignments as clients read them, and the end of transactions."""

import asyncio
from typing import Any

import pytest

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.route import QueueData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.send import EndTransactionHeader
from pyromq.protocol.records import sysflag
from pyromq.proxy.calls.routes import Routes, permissions
from pyromq.proxy.calls.transactions import Transactions
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.clients.doorkeeper import Door
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Unary
from pyromq.proxy.messages.transactionid import TransactionId, encode_transaction_id
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import AddressScheme, Code, MessageType, Permission, TransactionResolution
from tests.unit.proxy.fakes import FakeCall, FakeCluster

RW, R, W = Permission.READ_WRITE, Permission.READ, Permission.WRITE


def core(cluster: FakeCluster) -> Core:
    return Core(cluster, Door(), lambda: 0, lambda: 0.0)


def ask(cluster: FakeCluster, name: str, request: Any, answer: Any) -> Any:
    made = core(cluster)
    methods = Routes(made, Catalogue(cluster, lambda: 0.0)).methods() | Transactions(made).methods()
    method = methods[f"/apache.rocketmq.v2.MessagingService/{name}"]
    assert isinstance(method, Unary)

    async def story() -> Any:
        outcome = method.serve(request.SerializeToString(), FakeCall())
        return answer.FromString(outcome if isinstance(outcome, bytes) else await outcome)

    return asyncio.run(story())


def endpoints(scheme: int = AddressScheme.DOMAIN_NAME) -> Any:
    return messages.Endpoints(scheme=scheme, addresses=[messages.Address(host="mq.example", port=443)])


def route(cluster: FakeCluster, topic: str = "t", asked: Any = None) -> Any:
    request = messages.QueryRouteRequest(topic=messages.Resource(name=topic), endpoints=asked)
    return ask(cluster, "QueryRoute", request, messages.QueryRouteResponse)


def assignment(cluster: FakeCluster) -> Any:
    request = messages.QueryAssignmentRequest(
        topic=messages.Resource(name="t"), group=messages.Resource(name="g"), endpoints=endpoints()
    )
    return ask(cluster, "QueryAssignment", request, messages.QueryAssignmentResponse)


@pytest.mark.parametrize(
    ("perm", "read", "write", "expected"),
    [
        (6, 2, 2, [RW, RW]),
        (6, 3, 1, [RW, R, R]),
        (6, 1, 3, [RW, W, W]),
        (4, 2, 2, [R, R]),
        (2, 2, 2, [W, W]),
        (0, 2, 2, []),
    ],
)
def test_queue_zero_is_both_as_long_as_one_can_be(perm: int, read: int, write: int, expected: list[Permission]) -> None:
    assert permissions(QueueData(perm=perm, read_queue_nums=read, write_queue_nums=write)) == expected


def test_a_route_has_all_queues_with_the_endpoints_that_were_asked() -> None:
    cluster = FakeCluster()
    cluster.add_topic("t", ("b", 6, 1, 1), ("a", 6, 2, 2))
    answer = route(cluster, asked=endpoints())
    assert answer.status.code == Code.OK
    assert [(queue.broker.name, queue.id, queue.permission) for queue in answer.message_queues] == [
        ("a", 0, RW),
        ("a", 1, RW),
        ("b", 0, RW),
    ]
    queue = answer.message_queues[0]
    assert queue.broker.endpoints == endpoints()
    assert queue.broker.id == 0
    assert list(queue.accept_message_types) == [MessageType.NORMAL]


def test_who_does_not_say_where_it_asked_gets_where_it_arrived() -> None:
    cluster = FakeCluster()
    cluster.add_topic("t", ("a", 6, 1, 1))
    for asked in (None, messages.Endpoints(), endpoints(AddressScheme.ADDRESS_SCHEME_UNSPECIFIED)):
        found = route(cluster, asked=asked).message_queues[0].broker.endpoints
        assert found.scheme == AddressScheme.IPv4
        assert (found.addresses[0].host, found.addresses[0].port) == ("10.0.0.1", 8081)


@pytest.mark.parametrize(
    ("attribute", "kinds"),
    [
        ("FIFO", [MessageType.FIFO]),
        ("MIXED", [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]),
        ("SOMETHING", [MessageType.NORMAL]),
    ],
)
def test_types_are_those_of_the_topic(attribute: str, kinds: list[MessageType]) -> None:
    config = TopicConfig(topic_name="t", attributes={"message.type": attribute})
    cluster = FakeCluster({RequestCode.GET_TOPIC_CONFIG: lambda request: request.reply(body=config.encode())})
    cluster.add_topic("t", ("a", 6, 1, 1))
    assert list(route(cluster).message_queues[0].accept_message_types) == kinds


def test_a_topic_that_is_missing_is_not_found_unless_it_may_be_made() -> None:
    cluster = FakeCluster()
    answer = route(cluster, "new")
    assert answer.status.code == Code.TOPIC_NOT_FOUND
    assert "updateTopic" in answer.status.message
    cluster.may_create = True
    assert len(route(cluster, "new").message_queues) == 4
    assert cluster.created == ["new"]


def test_a_route_without_queues_is_no_route() -> None:
    cluster = FakeCluster()
    cluster.add_topic("t", ("a", 0, 4, 4))
    assert route(cluster).status.code == Code.TOPIC_NOT_FOUND
    assert route(cluster, "bad topic").status.code == Code.ILLEGAL_TOPIC


def test_a_group_gets_one_assignment_of_each_broker() -> None:
    cluster = FakeCluster()
    cluster.add_topic("t", ("a", 6, 4, 4), ("b", 4, 2, 0), ("c", 2, 0, 4))
    answer = assignment(cluster)
    assert [(each.message_queue.broker.name, each.message_queue.id) for each in answer.assignments] == [
        ("a", -1),
        ("b", -1),
    ]


def test_an_ordered_group_gets_every_queue() -> None:
    group = SubscriptionGroupConfig(group_name="g", consume_message_orderly=True)
    cluster = FakeCluster(
        {RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: lambda request: request.reply(body=group.encode())}
    )
    cluster.add_topic("t", ("a", 6, 3, 1))
    assert [each.message_queue.id for each in assignment(cluster).assignments] == [0, 1, 2]


def test_nothing_to_read_is_forbidden() -> None:
    cluster = FakeCluster()
    assert assignment(cluster).status.code == Code.TOPIC_NOT_FOUND
    cluster.add_topic("t", ("a", 2, 4, 4))
    assert assignment(cluster).status.code == Code.FORBIDDEN


def end(cluster: FakeCluster, **fields: Any) -> Any:
    given = {
        "topic": messages.Resource(name="t"),
        "message_id": "m",
        "transaction_id": encode_transaction_id(TransactionId("a", 5, 4096)),
        "resolution": TransactionResolution.COMMIT,
    } | fields
    return ask(cluster, "EndTransaction", messages.EndTransactionRequest(**given), messages.EndTransactionResponse)


def test_a_transaction_ends_at_the_broker_that_its_id_names() -> None:
    cluster = FakeCluster()
    assert end(cluster).status.code == Code.OK
    ((_, broker, command),) = cluster.asked
    header = command.header(EndTransactionHeader)
    assert broker == "a"
    assert (header.tran_state_table_offset, header.commit_log_offset) == (5, 4096)
    assert (header.producer_group, header.commit_or_rollback) == ("t", sysflag.COMMIT)
    assert not header.from_transaction_check


def test_the_answer_to_a_check_is_one_although_the_client_does_not_say_so() -> None:
    cluster = FakeCluster()
    checked = encode_transaction_id(TransactionId("a", 5, 4096, checked=True))
    end(cluster, transaction_id=checked, resolution=TransactionResolution.ROLLBACK)
    header = cluster.asked[0][2].header(EndTransactionHeader)
    assert header.from_transaction_check
    assert header.commit_or_rollback == sysflag.ROLLBACK


def test_an_outcome_that_is_not_known_asks_nobody() -> None:
    cluster = FakeCluster()
    assert end(cluster, resolution=0).status.code == Code.OK
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transaction_id": " "}, Code.INVALID_TRANSACTION_ID),
        ({"transaction_id": "x"}, Code.INVALID_TRANSACTION_ID),
        ({"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
        ({"topic": messages.Resource(name="")}, Code.ILLEGAL_TOPIC),
    ],
)
def test_a_transaction_that_is_not_named_well_is_refused(fields: dict[str, Any], code: Code) -> None:
    assert end(FakeCluster(), **fields).status.code == code


def test_a_broker_that_refuses_is_heard() -> None:
    cluster = FakeCluster(
        {RequestCode.END_TRANSACTION: lambda request: request.reply(ResponseCode.SYSTEM_ERROR, remark="ended already")}
    )
    answer = end(cluster)
    assert (answer.status.code, answer.status.message) == (Code.INTERNAL_SERVER_ERROR, "ended already")
