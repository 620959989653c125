"""The asyncio transport for protocol frames: server, connection, client pool, TLS."""

from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.deferred import Deferred
from pyromq.remoting.endpoint import Answer, ConnectionListener, Handler, Outcome
from pyromq.remoting.errors import (
    AddressError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    ProxyHeaderError,
    RemotingError,
    SendError,
    TlsError,
    TooManyRequests,
)
from pyromq.remoting.grouped import Grouped
from pyromq.remoting.hooks import RequestHook
from pyromq.remoting.limits import Limits
from pyromq.remoting.nameservers import NameServers
from pyromq.remoting.outbox import Frames
from pyromq.remoting.rates import TokenBuckets
from pyromq.remoting.server import Server
from pyromq.remoting.socks import SocksProxies, SocksProxy
from pyromq.remoting.stats import Stats
from pyromq.remoting.tls import ClientTls, ServerTls, TlsMode

__all__ = [
    "Address",
    "AddressError",
    "Answer",
    "CallTimeout",
    "Client",
    "ClientTls",
    "ConnectError",
    "Connection",
    "ConnectionListener",
    "ConnectionLost",
    "Deferred",
    "Frames",
    "Grouped",
    "Handler",
    "Limits",
    "NameServers",
    "Outcome",
    "ProxyHeaderError",
    "RemotingError",
    "RequestHook",
    "SendError",
    "Server",
    "ServerTls",
    "SocksProxies",
    "SocksProxy",
    "Stats",
    "TlsError",
    "TlsMode",
    "TokenBuckets",
    "TooManyRequests",
]
