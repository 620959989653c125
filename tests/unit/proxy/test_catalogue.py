"""What brokers say of topics and groups: asked once in a while, and of whoever can be asked."""

import pytest

from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.proxy.catalogue import KEPT_SECONDS, Catalogue
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.errors import ConnectError
from tests.unit.proxy.messaging import Bench, FakeCluster, run

TOPIC, GROUP = RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG


def test_brokers_are_asked_once_in_a_while() -> None:
    async def story() -> None:
        bench = Bench()
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "FIFO"})
        bench.cluster.groups["g"] = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
        for asked in (1, 2):
            for _ in range(3):
                assert (await bench.catalogue.topic("t")).attributes == {"message.type": "FIFO"}
                assert (await bench.catalogue.group("g", "t")).retry_max_times == 3
            assert (len(bench.cluster.of(TOPIC)), len(bench.cluster.of(GROUP))) == (asked, asked)
            bench.clock.now += int(KEPT_SECONDS * 1000) + 1

    run(story())


@pytest.mark.parametrize("code", [ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED])
def test_what_brokers_do_not_know_is_as_if_new(code: ResponseCode) -> None:
    async def story() -> None:
        bench = Bench()
        bench.cluster.replies[TOPIC] = bench.cluster.replies[GROUP] = lambda request: request.reply(code)
        assert (await bench.catalogue.topic("t")).attributes == {}
        assert (await bench.catalogue.group("g", "t")).retry_max_times == 16
        assert (await bench.catalogue.topic("nowhere")).topic_name == "nowhere"

    run(story())


def test_another_broker_is_asked_when_one_is_gone() -> None:
    async def story() -> None:
        bench = Bench(FakeCluster("a", "b"))
        bench.cluster.topics["t"] = TopicConfig(topic_name="t", attributes={"message.type": "DELAY"})
        bench.cluster.failures["a"] = ConnectError("a is gone")
        assert (await bench.catalogue.topic("t")).attributes == {"message.type": "DELAY"}
        bench.cluster.failures["b"] = ConnectError("b is gone")
        with pytest.raises(ConnectError):
            await bench.catalogue.group("g", "t")

    run(story())


def test_a_refusal_is_told() -> None:
    async def story() -> None:
        bench = Bench()
        bench.cluster.replies[TOPIC] = lambda request: request.reply(ResponseCode.SYSTEM_BUSY, remark="later")
        with pytest.raises(Refusal) as refused:
            await bench.catalogue.topic("t")
        assert refused.value.code is Code.TOO_MANY_REQUESTS

    run(story())


def test_it_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr("pyromq.proxy.catalogue.MAX_KEPT", 2)
        bench = Bench()
        catalogue = Catalogue(bench.cluster, bench.clock.monotonic)
        for name in ("t1", "t2", "t3"):
            bench.cluster.topics[name] = TopicConfig(topic_name=name)
            await catalogue.topic(name)
        await catalogue.topic("t3")
        assert len(bench.cluster.of(TOPIC)) == 3
        await catalogue.topic("t1")
        assert len(bench.cluster.of(TOPIC)) == 4

    run(story())
