"""A broker whose filter server processes run, and filter classes to give them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.broker.standalone import Standalone
from tests.integration.client.clusters import standalone
from tests.integration.client.inbox import eventually

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
        await broker.filter_processes.look()
        await eventually(lambda: len(broker.filter_servers) == servers)
        yield server
