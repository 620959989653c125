"""Filter classes of a consumer: uploads, the choice of a filter server, and the pulls that go there."""

import logging
import zlib
from typing import Any

import pytest

from pyromq.client.config import ClientConfig
from pyromq.client.consumer.fetch import Fetcher, PullRequest, PullStatus
from pyromq.client.consumer.filterclass import UPLOAD_TIMEOUT, ClassFilters
from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.client.consumer.subscription import FilterClass, Subscriptions, class_subscription
from pyromq.client.errors import BrokerError, ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol.bodies.clients import ConsumerData, HeartbeatData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader
from pyromq.protocol.message import MessageQueue
from tests.unit.client.fakes import FakeCluster, asyncio_test

SOURCE = "class Wanted:\n    def match(self, msg, context): return True\n"
CLASS = FilterClass("Wanted", SOURCE)
UPLOAD = RequestCode.REGISTER_MESSAGE_FILTER_CLASS


class World:
    """Two brokers, the first with two filter servers, the second with one."""

    def __init__(self) -> None:
        self.cluster = FakeCluster("a", "b")
        self.cluster.add_topic("T", 1)
        self.brokers = [broker.address for broker in self.cluster.brokers.values()]
        self.set_servers({self.brokers[0]: ["f:1", "f:2"], self.brokers[1]: ["f:3"]})
        self.refusal: str | None = None
        for address in ("f:1", "f:2", "f:3"):
            self.cluster.transport.peers[address] = self.filter_server
        config = ClientConfig(namesrv="ns1:9876")
        self.instance = ClientInstance("c", config, clock=self.cluster.clock, transport=self.cluster.transport)
        self.subscriptions = Subscriptions()
        self.subscriptions.add(class_subscription("T", CLASS, 1), CLASS)
        self.filters = ClassFilters(self.instance, "G", self.subscriptions)
        self.fetcher = Fetcher(self.instance, "G", class_filters=self.filters)

    def set_servers(self, table: dict[str, list[str]]) -> None:
        self.cluster.routes["T"].filter_server_table = table

    def filter_server(self, command: Command) -> Command:
        if self.refusal is not None:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark=self.refusal)
        if command.code == UPLOAD:
            return command.reply()
        header = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=9, min_offset=0, max_offset=9)
        return command.reply(ResponseCode.PULL_RETRY_IMMEDIATELY, header)

    def uploads(self) -> list[str]:
        return [address for address, _ in self.cluster.transport.sent(UPLOAD)]

    def request(self, broker: str = "a") -> PullRequest:
        return PullRequest(
            queue=MessageQueue("T", broker, 0),
            offset=0,
            max_messages=32,
            subscription=self.subscriptions.by_topic["T"],
            version=1,
            timeout=30.0,
        )


@asyncio_test
async def test_the_class_goes_to_every_filter_server_of_the_route() -> None:
    # F-03
    world = World()
    await world.instance.routes.refresh("T")
    await world.filters.upload_all()
    assert sorted(world.uploads()) == ["f:1", "f:2", "f:3"]
    address, command, timeout = next(each for each in world.cluster.transport.calls if each[1].code == UPLOAD)
    header = command.header(RegisterMessageFilterClassHeader)
    assert (header.consumer_group, header.topic, header.class_name) == ("G", "T", "Wanted")
    assert header.class_crc == zlib.crc32(SOURCE.encode()) & 0x7FFFFFFF
    assert (bytes(command.body), timeout) == (SOURCE.encode(), UPLOAD_TIMEOUT)
    assert address in {"f:1", "f:2", "f:3"}
    await world.filters.upload_all()
    assert len(world.uploads()) == 6, "with each round again"


@asyncio_test
async def test_a_failed_upload_is_logged_and_the_next_round_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    # F-03
    world = World()
    await world.instance.routes.refresh("T")
    world.refusal = "filter class Wanted failed: it looped"
    with caplog.at_level(logging.WARNING):
        await world.filters.upload_all()
    assert caplog.text.count("it looped") == 3
    world.refusal = None
    await world.filters.upload_all()
    assert len(world.uploads()) == 6


@asyncio_test
async def test_pulls_go_through_a_filter_server_of_the_broker_with_their_flag() -> None:
    # F-05
    world = World()
    await world.instance.routes.refresh("T")
    await world.filters.upload_all()
    for _ in range(40):
        result = await world.fetcher.fetch(world.request())
        assert (result.status, result.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 9)
    await world.fetcher.fetch(world.request("b"))
    pulls = world.cluster.transport.sent(RequestCode.PULL_MESSAGE)
    assert {address for address, _ in pulls} == {"f:1", "f:2", "f:3"}
    assert all(command.header(PullMessageHeader).sys_flag & 8 for _, command in pulls)
    assert len(world.uploads()) == 3, "they had it already"


@asyncio_test
async def test_a_server_that_is_new_gets_the_class_before_the_first_pull() -> None:
    # F-03
    world = World()
    await world.fetcher.fetch(world.request("b"))
    assert world.uploads() == ["f:3"]
    await world.fetcher.fetch(world.request("b"))
    assert world.uploads() == ["f:3"]


@asyncio_test
async def test_after_a_refused_pull_the_class_is_uploaded_again() -> None:
    # F-05
    world = World()
    await world.fetcher.fetch(world.request("b"))
    world.refusal = "no filter class of group G for topic T is known here"
    with pytest.raises(BrokerError, match="no filter class"):
        await world.fetcher.fetch(world.request("b"))
    world.refusal = None
    await world.fetcher.fetch(world.request("b"))
    assert world.uploads() == ["f:3", "f:3"]


@asyncio_test
async def test_without_a_filter_server_the_route_is_asked_again_and_the_error_is_clear() -> None:
    # F-05
    world = World()
    world.set_servers({})
    await world.instance.routes.refresh("T")
    with pytest.raises(ClientError, match="has no filter server for topic 'T': set filterServerNums"):
        await world.fetcher.fetch(world.request())
    world.set_servers({world.brokers[0]: ["f:1"]})
    assert (await world.fetcher.fetch(world.request())).status is PullStatus.NO_MATCHED_MESSAGE


def test_another_subscription_drops_the_class() -> None:
    world = Subscriptions()
    world.add(class_subscription("T", CLASS, 1), CLASS)
    world.add(class_subscription("U", CLASS, 1), CLASS)
    world.add(class_subscription("T", CLASS, 2))
    world.remove("U")
    assert world.filter_classes == {}


def test_subscribing_with_a_class() -> None:
    # F-03, F-06
    consumer = PushConsumer("G", namesrv="ns1:9876")
    consumer.subscribe("T", filter_class=("Wanted", SOURCE))
    (subscription,) = consumer._subscriptions.tell()
    assert (subscription.class_filter_mode, subscription.sub_string) == (True, "Wanted")
    group = ConsumerData(group_name="G", subscription_data_set=[subscription])
    body = HeartbeatData(client_id="c", consumer_data_set=[group]).encode()
    assert b"def match" not in body, "the source is for filter servers only"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tags": "a", "filter_class": ("Wanted", SOURCE)}, "one of them only"),
        ({"sql": "a = 1", "filter_class": ("Wanted", SOURCE)}, "one of them only"),
        ({"filter_class": ("not a name", SOURCE)}, "no name of a class"),
        ({"filter_class": ("Wanted", "")}, "has 0 bytes"),
        ({"filter_class": ("Wanted", "#" * 300_000)}, "has 300000 bytes"),
        ({"filter_class": ("Wanted", "\ud800")}, "not valid Unicode"),
    ],
)
def test_what_cannot_be_subscribed(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ClientError, match=reason):
        PushConsumer("G", namesrv="ns1:9876").subscribe("T", **options)


def test_a_class_needs_pulls() -> None:
    consumer = PushConsumer("G", namesrv="ns1:9876", client_rebalance=False)
    with pytest.raises(ClientError, match="needs pulls"):
        consumer.subscribe("T", filter_class=("Wanted", SOURCE))
