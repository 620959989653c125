"""Settings that change while a broker runs, by request or by its file: checked as a whole, and at work at once."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pyromq.protocol import javaproperties
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from tests import processes
from tests.integration.broker.servers import Peer, standalone

FILE = 64 * 1024


async def change(peer: Peer, text: str) -> Command:
    return await peer.call(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


async def shown(peer: Peer) -> dict[str, str]:
    answer = await peer.call(RequestCode.GET_BROKER_CONFIG)
    return javaproperties.loads(bytes(answer.body).decode())


NEEDED = {
    "fileReservedTime": "48",
    "deleteWhen": "03;15",
    "diskMaxUsedSpaceRatio": "60",
    "diskSpaceCleanForciblyRatio": "70",
    "diskSpaceWarningLevelRatio": "80",
    "cleanFileForciblyEnable": "false",
    "deleteFileBatchMax": "3",
    "maxCommitLogSize": "1000000000",
    "maxMessageSize": "1000000",
    "maxFlushWaiters": "1000",
    "maxTopics": "100",
    "maxGroups": "100",
    "transactionTimeOut": "7000",
    "transactionCheckMax": "3",
    "transactionCheckInterval": "20000",
    "channelExpiredTimeout": "60000",
    "haSendHeartbeatInterval": "1000",
    "haHousekeepingInterval": "10000",
    "brokerPermission": "4",
    "autoCreateTopicEnable": "false",
}
"""What operators turn to when a disk fills up, a client misbehaves or a link is slow."""


async def test_what_operators_need_is_changed_in_one_request(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        answer = await change(peer, javaproperties.dumps(NEEDED))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert {key: value for key, value in (await shown(peer)).items() if key in NEEDED} == NEEDED
        assert broker.store.config.file_reserved_time == 48


async def test_retention_goes_by_what_was_set_last(tmp_path: Path) -> None:
    async with standalone(tmp_path, mapped_file_size_commit_log=str(FILE), clean_resource_interval="10") as (_, peer):
        for _ in range(6):
            await peer.stored("orders", b"x" * (FILE // 3))
        log = tmp_path / "commitlog"
        files = sorted(log.iterdir())
        for path in files[:-1]:
            os.utime(path, (1, 1))
        every_hour = ";".join(f"{hour:02}" for hour in range(24))
        hidden = await change(peer, f"fileReservedTime=1000000\ndeleteWhen={every_hour}\n")
        assert hidden.code == ResponseCode.SUCCESS, hidden.remark
        await peer.stored("orders")
        assert sorted(log.iterdir())[: len(files)] == files, "none of them is a hundred years old"
        await change(peer, "fileReservedTime=72\n")
        while files[0].exists():
            await peer.stored("orders")
        assert files[-1].exists()


async def test_bounds_hold_as_they_are_now(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        for number in range(16):
            await peer.stored(f"topic-{number}")
        await change(peer, f"maxTopics={len(broker.core.topics)}\nmaxMessageSize=100\n")
        refused = await peer.send("one-too-many", b"x")
        assert "maxTopics" in (refused.remark or "")
        assert (await peer.send("topic-0", b"x" * 101)).code == ResponseCode.MESSAGE_ILLEGAL
        await change(peer, f"maxTopics={len(broker.core.topics) + 1}\nmaxMessageSize=200\n")
        await peer.stored("one-too-many", b"x" * 101)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("fileReservedTime=48\ndeleteWhen=25\n", "deleteWhen"),
        ("fileReservedTime=48\ndeleteWhen=noon\n", "deleteWhen"),
        ("fileReservedTime=48\ninSyncReplicas=1\nminInSyncReplicas=2\n", "minInSyncReplicas"),
        ("fileReservedTime=48\nmaxTopics=1\n", "maxTopics"),
    ],
)
async def test_all_of_a_change_or_none(tmp_path: Path, text: str, complaint: str) -> None:
    async with standalone(tmp_path) as (broker, peer):
        before = await shown(peer)
        answer = await change(peer, text)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert complaint in (answer.remark or "")
        assert await shown(peer) == before
        assert broker.store.config.file_reserved_time == 72


async def until_said(server: processes.Server, peer: Peer, text: str) -> None:
    while text not in server.text:
        assert server.is_running, server.text
        await peer.call(RequestCode.GET_BROKER_CONFIG)
        await asyncio.sleep(0.01)


async def test_a_hangup_reads_the_file_again(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nfileReservedTime=48\ndefaultTopicQueueNums=8\n")
    with processes.broker(tmp_path / "store", "-c", str(file), name="a") as server:
        async with Peer(server["broker"]) as peer:
            file.write_text("brokerName=a\nfileReservedTime=24\ndefaultTopicQueueNums=4\nmaxGroups=99\n")
            server.signal(signal.SIGHUP)
            await until_said(server, peer, "next start")
            assert f"{file} was read again: fileReservedTime, maxGroups" in server.text
            assert "defaultTopicQueueNums" in server.text
            now = await shown(peer)
            assert (now["fileReservedTime"], now["maxGroups"], now["defaultTopicQueueNums"]) == ("24", "99", "8")
            file.write_text("fileReservedTime=soon\n")
            server.signal(signal.SIGHUP)
            await until_said(server, peer, "settings stay as they are")
            assert (await shown(peer))["fileReservedTime"] == "24"
            await peer.stored("orders")


async def test_a_name_server_reads_its_file_again(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("enableTopicList=true\n")
    with processes.name_server(tmp_path, "-c", str(file)) as server:
        async with Peer(server["namesrv"]) as peer:
            file.write_text("enableTopicList=false\n")
            server.signal(signal.SIGHUP)
            while "was read again: enableTopicList" not in server.text:
                assert server.is_running, server.text
                await peer.call(RequestCode.GET_NAMESRV_CONFIG)
            answer = await peer.call(RequestCode.GET_NAMESRV_CONFIG)
            assert javaproperties.loads(bytes(answer.body).decode())["enableTopicList"] == "false"
