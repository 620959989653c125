"""The seam between the client and the network: what a client instance needs of `pyromq.remoting`, and how it is made.

Unit tests put a fake behind `Transport`.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from pyromq.client.config import ClientConfig
from pyromq.client.instance.decoration import request_hooks
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.connect.socks import SocksProxies
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.limits import Limits


class Transport(Protocol):
    """One pool of connections, one connection per address, shared by everything in a client instance."""

    async def call(self, address: str, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as Client
        """Send a request and return its response. Raises RemotingError."""

    async def oneway(self, address: str, command: Command, timeout: float) -> None:  # noqa: ASYNC109 - as Client
        """Send a request that has no response. Raises RemotingError when it cannot be handed over."""

    def disconnect(self, address: str, reason: str = ...) -> None:
        """Close the connection to an address, if there is one."""

    async def close(self) -> None:
        """Close every connection; pending requests fail at once."""


def connect(
    config: ClientConfig,
    handlers: Mapping[int, Handler],
    on_open: Callable[[str], None],
    on_close: Callable[[str], None],
) -> Transport:
    """The real transport. `on_open` and `on_close` are told the address of every connection that comes up or ends."""
    return Client(
        handlers,
        limits=Limits(
            max_frame=config.max_frame,
            calls=config.async_permits,
            oneways=config.oneway_permits,
            connect_timeout=config.connect_timeout,
            idle_timeout=config.max_idle,
        ),
        tls=config.tls,
        proxies=SocksProxies(config.socks_proxies) if config.socks_proxies else None,
        hooks=request_hooks(config),
        on_open=lambda connection: on_open(str(connection.peer)),
        on_close=lambda connection: on_close(str(connection.peer)),
    )
