"""A broker whose filter server processes run, and filter classes to give them."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.broker.filter.filterservers import FilterProcesses, FilterServers
from pyromq.broker.standalone import Standalone
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader
from pyromq.remoting.client import Client
from tests.integration.client.clusters import standalone
from tests.integration.client.inbox import eventually

TIMEOUT = 60.0

EVEN = """
# Of decimal numbers as text the last byte is even when the number is.
class Even:
    def match(self, msg, context):
        return msg.body[-1] % 2 == 0
"""


def one_line(body: str) -> str:
    """A class `Probe` whose match does just this."""
    return f"class Probe:\n    def match(self, msg, context):\n        {body}\n"


@asynccontextmanager
async def filtering(path: Path, servers: int = 1, **settings: str) -> AsyncIterator[Standalone]:
    """One name server, one broker, and its filter servers, registered; the first look at them is not waited for."""
    wanted = {"filter_server_nums": str(servers), "client_upload_filter_class_enable": "true"} | settings
    async with standalone(path, **wanted) as server:
        assert server.broker is not None
        broker = server.broker
        await broker.part(FilterProcesses).look()
        await eventually(lambda: len(broker.part(FilterServers)) == servers)
        yield server


class FilterClient:
    """Speaks raw commands to one filter server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.client = Client()

    async def upload(self, group: str, topic: str, name: str, source: str, crc: int | None = None) -> Command:
        body = source.encode()
        header = RegisterMessageFilterClassHeader(
            consumer_group=group,
            topic=topic,
            class_name=name,
            class_crc=zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc,
        )
        command = Command.request(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, header, body=body)
        return await self.client.call(self.address, command, TIMEOUT)

    async def pull(self, group: str, topic: str, offset: int = 0, *, queue: int = 0, hold_ms: int = 0) -> Command:
        header = PullMessageHeader(
            consumer_group=group,
            topic=topic,
            queue_id=queue,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=8 | (2 if hold_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            sub_version=0,
        )
        return await self.client.call(self.address, Command.request(RequestCode.PULL_MESSAGE, header), TIMEOUT)
