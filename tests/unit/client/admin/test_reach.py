"""Which servers are asked, and what becomes of their failures."""

import pytest

from pyromq.client.admin.reach import Server, chosen_masters
from pyromq.client.errors import BrokerError, ClientError, PartialFailureError, TransportError
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.remoting.errors import CallTimeout
from tests.unit.client.admin.cluster import AdminCluster, accept

CLEAN = RequestCode.CLEAN_UNUSED_TOPIC


def broker(name: str, *ids: int) -> BrokerData:
    return BrokerData(broker_name=name, broker_addrs={number: f"{name}:{number}" for number in ids})


def test_masters_are_chosen_by_broker_or_cluster() -> None:
    info = ClusterInfo(
        broker_addr_table={"b": broker("b", 0, 1), "a": broker("a", 0), "slave": broker("slave", 1)},
        cluster_addr_table={"one": ["a", "slave"], "two": ["b"]},
    )
    assert chosen_masters(info) == [Server("a", "a:0"), Server("b", "b:0")]
    assert chosen_masters(info, cluster="two") == [Server("b", "b:0")]
    assert chosen_masters(info, cluster="one") == [Server("a", "a:0")]
    assert chosen_masters(info, cluster="three") == []
    assert chosen_masters(info, broker="b") == [Server("b", "b:0")]
    assert chosen_masters(info, broker="slave") == []


async def test_all_masters_are_asked_with_the_time_of_one_request() -> None:
    cluster = AdminCluster("broker-b", "broker-a")
    cluster.everywhere(RequestCode.GET_BROKER_CONFIG, lambda command: command.reply(body=b"brokerName=x\n"))
    async with cluster.admin(timeout=7.0) as admin:
        assert list(await admin.broker_config()) == ["broker-a", "broker-b"]
    assert {seconds for _, command, seconds in cluster.transport.calls if command.code == 26} == {7.0}


async def test_an_address_is_asked_without_a_look_at_the_cluster() -> None:
    cluster = AdminCluster("broker-a")
    cluster.everywhere(CLEAN, accept)
    async with cluster.admin() as admin:
        assert await admin.clean_unused_topics(broker="10.0.0.1:10911") == ["10.0.0.1:10911"]
    assert not cluster.transport.sent(RequestCode.GET_BROKER_CLUSTER_INFO)


async def test_the_error_of_the_only_broker_is_raised_as_it_is() -> None:
    cluster = AdminCluster("broker-a")
    cluster.everywhere(CLEAN, lambda command: command.reply(ResponseCode.SYSTEM_BUSY, remark="later"))
    async with cluster.admin() as admin:
        with pytest.raises(BrokerError, match="from broker-a") as refused:
            await admin.clean_unused_topics()
    assert (refused.value.code, refused.value.remark) == (ResponseCode.SYSTEM_BUSY, "later")


async def test_partial_failures_keep_answers_and_reasons() -> None:
    cluster = AdminCluster("broker-a", "broker-b", "broker-c")
    cluster.everywhere(CLEAN, accept)
    cluster.brokers["broker-b"].answers[CLEAN] = lambda command: command.reply(ResponseCode.SYSTEM_ERROR, remark="no")
    cluster.brokers["broker-c"].answers[CLEAN] = lambda _: CallTimeout("no answer in 5 s")
    async with cluster.admin() as admin:
        with pytest.raises(PartialFailureError, match=r"cleaning failed on 2 of 3: broker-b: .*no; broker-c: ") as some:
            await admin.clean_unused_topics()
    assert list(some.value.done) == ["broker-a"]
    assert isinstance(some.value.failed["broker-b"], BrokerError)
    assert isinstance(some.value.failed["broker-c"], TransportError)
    assert some.value.code == ResponseCode.SYSTEM_ERROR


async def test_an_answer_that_cannot_be_read_is_an_error_of_the_client() -> None:
    cluster = AdminCluster("broker-a")
    cluster.everywhere(RequestCode.GET_BROKER_RUNTIME_INFO, lambda command: command.reply(body=b"{oops"))
    cluster.everywhere(RequestCode.GET_BROKER_CONFIG, lambda command: command.reply(body=b"\xff\xfe"))
    async with cluster.admin() as admin:
        with pytest.raises(ClientError, match="answer of broker-a cannot be read"):
            await admin.broker_status()
        with pytest.raises(ClientError, match="not UTF-8"):
            await admin.broker_config()


async def test_changes_go_to_every_name_server() -> None:
    cluster = AdminCluster("broker-a", name_servers=("ns1:9876", "ns2:9876"))
    cluster.at_name_server[RequestCode.PUT_KV_CONFIG] = accept
    async with cluster.admin() as admin:
        await admin.put_kv("ns", "k", "v")
        assert sorted(address for address, _ in cluster.transport.sent(RequestCode.PUT_KV_CONFIG)) == [
            "ns1:9876",
            "ns2:9876",
        ]
        cluster.transport.peers["ns2:9876"] = lambda _: CallTimeout("gone")
        with pytest.raises(PartialFailureError, match="ns2:9876"):
            await admin.put_kv("ns", "k", "v")


async def test_without_name_servers_the_reason_is_plain() -> None:
    cluster = AdminCluster("broker-a")
    async with cluster.admin() as admin:
        cluster.transport.peers.clear()
        with pytest.raises(ClientError, match="no name server answered"):
            await admin.cluster_info()
