"""Pulls of brokers that know less than others."""

from pyromq.client.config import ClientConfig
from pyromq.client.consumer.fetch import Fetcher, PullRequest, PullStatus
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import LITE, PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue
from tests.unit.client.fakes import FakeCluster, asyncio_test

NOTHING = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=9, min_offset=0, max_offset=9)


def legacy(command: Command) -> Command:
    """A broker of the 4.9 line."""
    if command.code == RequestCode.LITE_PULL_MESSAGE:
        return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 361 not supported")
    return command.reply(ResponseCode.PULL_NOT_FOUND, NOTHING)


@asyncio_test
async def test_a_lite_pull_of_a_broker_that_does_not_know_it() -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("T", 1)
    cluster.transport.peers[cluster.brokers["a"].address] = legacy
    config = ClientConfig(namesrv="ns1:9876")
    fetcher = Fetcher(ClientInstance("c", config, clock=cluster.clock, transport=cluster.transport), "G")
    request = PullRequest(
        queue=MessageQueue("T", "a", 0),
        offset=9,
        max_messages=32,
        subscription=SubscriptionData(topic="T", sub_string="*"),
        version=1,
        timeout=30.0,
        lite=True,
    )
    for _ in range(2):
        assert (await fetcher.fetch(request)).status is PullStatus.NO_NEW_MESSAGE
    assert len(cluster.transport.sent(RequestCode.LITE_PULL_MESSAGE)) == 1, "it is asked once"
    pulls = [command.header(PullMessageHeader) for _, command in cluster.transport.sent(RequestCode.PULL_MESSAGE)]
    assert [pull.sys_flag & LITE for pull in pulls] == [0, 0]
