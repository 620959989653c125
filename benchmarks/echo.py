"""A bare frame echo: the least that a server with this event loop can do for a frame, and so the limit for others.

It finds the end of each frame and answers it with a short response, as a broker does; it decodes and keeps nothing.
"""

import asyncio
import json
import os
from typing import cast

import uvloop

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, encode

RESPONSE = encode(Command.request(310).reply(ResponseCode.SUCCESS, ext={"msgId": "0" * 32, "queueId": "0"}))


class Echo(asyncio.Protocol):
    """Counts whole frames and answers each."""

    def __init__(self) -> None:
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        position = frames = 0
        end = len(data)
        while end - position >= 4:
            following = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if following > end:
                break
            position = following
            frames += 1
        self._rest = data[position:]
        if frames:
            self._transport.write(RESPONSE * frames)


async def serve() -> None:
    """Listen on a free port, say which, and go on until killed."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(json.dumps({"echo": f"{host}:{port}", "pid": os.getpid()}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
