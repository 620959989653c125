"""Each request is written as a peer expects it, and its answer read as a value."""

import pytest

from pyromq.protocol import requests
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import BodyError, HeaderError
from pyromq.protocol.requests import Request


def answered(request: Request[int] | Request[int | None], ext: dict[str, str]) -> int | None:
    response = request.command.reply(ext=ext)
    assert request.is_answer(response)
    return request.read(response)


@pytest.mark.parametrize(
    ("request_", "code", "ext", "answer"),
    [
        (requests.max_offset("T", 3), RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "3"}, "offset"),
        (requests.min_offset("T", 3), RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": "3"}, "offset"),
        (
            requests.search_offset("T", 3, 99, boundary="lower"),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            {"topic": "T", "queueId": "3", "timestamp": "99", "boundaryType": "lower"},
            "offset",
        ),
        (
            requests.earliest_store_time("T", 3),
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            {"topic": "T", "queueId": "3"},
            "timestamp",
        ),
        (
            requests.consumer_offset("G", "T", 3, zero_if_absent=False, broker="b"),
            RequestCode.QUERY_CONSUMER_OFFSET,
            {"consumerGroup": "G", "topic": "T", "queueId": "3", "setZeroIfNotFound": "false", "bname": "b"},
            "offset",
        ),
    ],
)
def test_numbers(request_: Request[int], code: RequestCode, ext: dict[str, str], answer: str) -> None:
    assert (request_.command.code, request_.command.ext) == (code, ext)
    assert answered(request_, {answer: "17"}) == 17
    with pytest.raises(HeaderError):
        request_.read(request_.command.reply())


def test_refusals_are_no_answers() -> None:
    request = requests.max_offset("T", 0)
    assert not request.is_answer(request.command.reply(ResponseCode.SYSTEM_BUSY))
    assert not request.is_answer(request.command.reply(ResponseCode.QUERY_NOT_FOUND))


def test_a_group_without_an_offset() -> None:
    request = requests.consumer_offset("G", "T", 0)
    missing = request.command.reply(ResponseCode.QUERY_NOT_FOUND)
    assert request.is_answer(missing)
    assert request.read(missing) is None
    assert answered(request, {"offset": "-1"}) is None
    assert answered(request, {"offset": "0"}) == 0


def test_commit() -> None:
    command = requests.commit_offset("G", "T", 1, 5).command
    assert command.code == RequestCode.UPDATE_CONSUMER_OFFSET
    assert command.ext == {"consumerGroup": "G", "topic": "T", "queueId": "1", "commitOffset": "5"}


def test_route() -> None:
    request = requests.topic_route("T")
    assert request.command.ext == {"topic": "T", "acceptStandardJsonOnly": "true"}
    route = TopicRouteData(broker_datas=[BrokerData(broker_name="a", broker_addrs={0: "a:1"})])
    assert request.read(request.command.reply(body=route.encode())) == route
    missing = request.command.reply(ResponseCode.TOPIC_NOT_EXIST)
    assert request.is_answer(missing)
    assert request.read(missing) is None
    with pytest.raises(BodyError):
        request.read(request.command.reply(body=b"{"))


def test_cluster() -> None:
    request = requests.cluster_info()
    info = ClusterInfo(cluster_addr_table={"C": ["a"]})
    assert request.read(request.command.reply(body=info.encode())) == info


@pytest.mark.parametrize(("hold", "flag"), [(0, 4), (2_000, 6)])
def test_pull(hold: int, flag: int) -> None:
    command = requests.pull_messages("G", "T", 1, 7, 32, hold_ms=hold, max_bytes=1000, stream=True)
    assert (command.code, command.ext) == (
        RequestCode.PULL_MESSAGE,
        {
            "consumerGroup": "G",
            "topic": "T",
            "queueId": "1",
            "queueOffset": "7",
            "maxMsgNums": "32",
            "sysFlag": str(flag),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(hold),
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
            "maxMsgBytes": "1000",
            "ReqT": "0",
        },
    )
    assert isinstance(command, Command)
