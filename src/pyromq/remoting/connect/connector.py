"""The connections of a client by address, and how they come up.

At most one attempt for each address at a time, shared by everybody who waits for it. After a failure the next attempt
is held back a little, longer after each further failure up to a bound, so that retrying callers do not spin.
"""

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyromq.clock import pause_after
from pyromq.remoting.address import Address
from pyromq.remoting.connect.socks import SocksProxies, dial
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Endpoint, Handler
from pyromq.remoting.errors import ConnectError, RemotingError
from pyromq.remoting.tls import ClientTls

FIRST_BACKOFF = 0.04
REMEMBERED_FAILURES = 1_000


class Failures:
    """Consecutive failures of one address and when it may be tried again."""

    __slots__ = ("count", "not_before")

    def __init__(self) -> None:
        self.count = 0
        self.not_before = 0.0


class Connector:
    """`connections` by address; `connect` gives one that is open or raises ConnectError."""

    __slots__ = ("_attempts", "_endpoint", "_failures", "_handlers", "_proxies", "_tls", "connections")

    def __init__(
        self,
        endpoint: Endpoint,
        handlers: Mapping[int, Handler],
        tls: ClientTls | None,
        proxies: SocksProxies | None = None,
    ) -> None:
        self.connections: dict[str, Connection] = {}
        self._endpoint = endpoint
        self._handlers = handlers
        self._tls = tls
        self._proxies = proxies
        self._attempts: dict[str, asyncio.Task[Connection]] = {}
        self._failures: dict[str, Failures] = {}

    async def connect(self, address: str, deadline: float) -> Connection:
        """The open connection to an address, made if need be. Raises ConnectError, AddressError."""
        connection = self.connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        if self._endpoint.leaving:
            raise ConnectError(f"cannot connect to {address}: the client is closed")
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._attempt(address, Address.parse(address)))
            self._attempts[address] = attempt
            attempt.add_done_callback(partial(self._on_attempt_done, address))
        try:
            async with asyncio.timeout(max(deadline - self._endpoint.clock(), 0.0)):
                return await asyncio.shield(attempt)
        except TimeoutError:
            raise ConnectError(f"cannot connect to {address}: not within the time of the request") from None
        except asyncio.CancelledError:
            if self._endpoint.leaving and attempt.cancelled():
                raise ConnectError(f"cannot connect to {address}: the client is closed") from None
            raise

    def retire(self, address: str, connection: Connection) -> None:
        """Use a new connection for further requests; close this one when its last answer has come."""
        if self.connections.get(address) is connection:
            del self.connections[address]
        connection.asker.retire()

    async def stop(self) -> None:
        """Give up all attempts."""
        attempts = tuple(self._attempts.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)

    async def _attempt(self, name: str, address: Address) -> Connection:
        endpoint = self._endpoint
        limits = endpoint.limits
        if len(self._failures) >= REMEMBERED_FAILURES:
            self._failures.clear()
        failures = self._failures.setdefault(name, Failures())
        pause = failures.not_before - endpoint.clock()
        if pause > 0:
            await asyncio.sleep(pause)
        try:
            async with asyncio.timeout(limits.connect_timeout):
                connection = await self._open(address)
        except TimeoutError:
            raise self._failed(name, failures, f"no answer within {limits.connect_timeout:g} s") from None
        except (OSError, socket.gaierror, UnicodeError, RemotingError) as error:
            raise self._failed(name, failures, str(error)) from error
        self._failures.pop(name, None)
        self.connections[name] = connection
        connection.on_close(partial(self._on_close, name))
        endpoint.start_sweeping()
        return connection

    async def _open(self, address: Address) -> Connection:
        """A connection, direct or through a proxy, with TLS on top if there is any."""
        loop = asyncio.get_running_loop()
        tls = self._tls
        if tls is not None:
            tls.reload_if_changed()
        limit = self._endpoint.limits.connect_timeout if tls is not None else None
        options: dict[str, Any] = {
            "ssl": tls.context if tls is not None else None,
            "server_hostname": (tls.server_name or address.host) if tls is not None else None,
            "ssl_handshake_timeout": limit,
            "ssl_shutdown_timeout": limit,
        }
        proxy = self._proxies.proxy_for(address.host) if self._proxies is not None else None
        if proxy is None:
            options |= {"host": address.host, "port": address.port}
        else:
            options["sock"] = await dial(proxy, address)
        _, connection = await loop.create_connection(lambda: Connection(self._endpoint, self._handlers), **options)
        return connection

    def _failed(self, name: str, failures: Failures, reason: str) -> ConnectError:
        failures.count += 1
        pause = pause_after(failures.count, first=FIRST_BACKOFF, longest=self._endpoint.limits.reconnect_backoff)
        failures.not_before = self._endpoint.clock() + pause
        return ConnectError(f"cannot connect to {name}: {reason}")

    def _on_attempt_done(self, name: str, attempt: "asyncio.Task[Connection]") -> None:
        del self._attempts[name]
        if not attempt.cancelled():
            attempt.exception()  # Retrieved here, since all who waited may have gone.

    def _on_close(self, name: str, connection: Connection) -> None:
        if self.connections.get(name) is connection:
            del self.connections[name]
