"""The filter servers that belong to this broker: who registered, and the processes it keeps running.

A filter server registers every ten seconds over one connection; it is off the list as soon as that ends or it has been
silent for long. The list travels with the broker's own registration, where consumers find it in routes. What a filter
server does is none of the broker's business: it starts it by name and serves its pulls.
"""

import asyncio
import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from pyromq.auth.settings import AuthSettings
from pyromq.broker.config import BrokerConfig
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Part
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.filtersrv import RegisterFilterServerHeader, RegisterFilterServerResponseHeader
from pyromq.remoting.accept.settings import ServerSettings, is_loopback
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import AddressError
from pyromq.settings.declaration import options
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Option

log = logging.getLogger(__name__)

SILENCE_MS: Final = 30_000
SCAN_INTERVAL: Final = 10.0
FIRST_LOOK: Final = 5.0
LOOK_INTERVAL_MS: Final = 30_000
STOP_GRACE: Final = 5.0
MOST: Final = 64
_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR", "TZ", "VIRTUAL_ENV")


@dataclass(slots=True)
class _Entry:
    connection: Connection
    seen_ms: int


class FilterServers(Part):
    """The list. `changed` is called with the addresses whenever they are others than before."""

    def __init__(self, core: Core, changed: Callable[[list[str]], None]) -> None:
        self._config = core.config
        self._own_ip = core.store.store_host.ip
        self._changed = changed
        self._clock = core.clock
        self._table: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._table)

    @property
    def addresses(self) -> list[str]:
        return sorted(self._table)

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.REGISTER_FILTER_SERVER: self._register}

    def every(self) -> Iterable[Every]:
        """Look for those who fell silent."""
        return [Every(SCAN_INTERVAL, self.drop_silent)]

    def drop_silent(self) -> None:
        """Forget those that were not heard of for long."""
        horizon = self._clock() - SILENCE_MS
        self._drop([address for address, entry in self._table.items() if entry.seen_ms < horizon])

    def connection_closed(self, connection: Connection) -> None:
        """Forget whoever registered over it."""
        self._drop([address for address, entry in self._table.items() if entry.connection is connection])

    def _drop(self, addresses: list[str]) -> None:
        for address in addresses:
            del self._table[address]
            log.info("filter server %s is gone", address)
        if addresses:
            self._changed(self.addresses)

    def _register(self, request: Command, connection: Connection) -> Command:
        address = self._check(request.header(RegisterFilterServerHeader).filter_server_addr, connection)
        known = address in self._table
        self._table[address] = _Entry(connection, self._clock())
        if not known:
            log.info("filter server %s registered", address)
            self._changed(self.addresses)
        return request.reply(
            header=RegisterFilterServerResponseHeader(
                broker_name=self._config.broker_name, broker_id=self._config.broker_id
            )
        )

    def _check(self, address: str, connection: Connection) -> str:
        """Consumers are sent there, so it must be one of ours: on this machine, and asked for. Raises Refused."""
        if self._config.filter_server_nums == 0:
            raise Refused(ResponseCode.NO_PERMISSION, "this broker has no filter servers: filterServerNums is 0")
        host = connection.peer.host
        if not (is_loopback(host) or host == self._own_ip):
            raise Refused(ResponseCode.NO_PERMISSION, f"filter servers run beside their broker, not at {host}")
        try:
            parsed = str(Address.parse(address))
        except AddressError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"filterServerAddr: {error}") from error
        if parsed not in self._table and len(self._table) >= MOST:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"this broker has {MOST} filter servers already")
        return parsed


class Process(Protocol):
    """What is needed of a child process."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


async def start_process(*command: str, secrets: Mapping[str, str] | None = None) -> Process:
    """Start a command, no shell in between; what it logs goes where the broker logs.

    `secrets` go into its environment, which only this user can see; arguments everybody can.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | dict(secrets or {}),
    )


class FilterProcesses(Part):
    """Keeps `filterServerNums` filter servers running."""

    def __init__(
        self, core: Core, servers: FilterServers, *, start: Callable[..., Awaitable[Process]] | None = None
    ) -> None:
        self._config = core.config
        self._broker_address = core.address
        self._servers = servers
        self._clock = core.clock
        self._start = start or partial(start_process, secrets=_secrets(core.config))
        self._running: list[Process] = []
        self._next_look_ms = 0

    @property
    def pids(self) -> list[int]:
        """Of those that run."""
        return [process.pid for process in self._running if process.returncode is None]

    @staticmethod
    def check(config: BrokerConfig) -> None:
        """Raise ConfigError when filter servers are wanted that could not run."""
        if config.filter_server_nums and importlib.util.find_spec("RestrictedPython") is None:
            raise ConfigError(
                f"filterServerNums = {config.filter_server_nums} needs RestrictedPython: "
                "pip install 'pyromq[filters]', or set it to 0"
            )

    def every(self) -> Iterable[Every]:
        """Look after them, if there are to be any."""
        return [Every(FIRST_LOOK, self.tick)] if self._config.filter_server_nums else []

    async def tick(self) -> None:
        """Look after the processes, if it is time."""
        now = self._clock()
        if now >= self._next_look_ms:
            self._next_look_ms = now + LOOK_INTERVAL_MS
            await self.look()

    async def look(self) -> None:
        """Start those that are missing."""
        for process in self._running:
            if process.returncode is not None:
                log.warning("filter server process %d ended with %d", process.pid, process.returncode)
        self._running = [process for process in self._running if process.returncode is None]
        present = max(len(self._running), len(self._servers))
        for _ in range(self._config.filter_server_nums - present):
            self._running.append(await self._start(*self.command()))

    def command(self) -> tuple[str, ...]:
        """How a filter server is started."""
        config = self._config
        return (
            *(sys.executable, "-m", "pyromq", "filtersrv"),
            *("--connect-which-broker", self._broker_address),
            *("--host", config.filter_server_host),
            "--insecure" if config.insecure else "--no-insecure",
            "--client-upload-filter-class-enable"
            if config.client_upload_filter_class_enable
            else "--no-client-upload-filter-class-enable",
            *("--filter-class-memory", str(config.filter_class_memory)),
            *("--filter-class-cpu-time", str(config.filter_class_cpu_time)),
            *("--cluster-name", config.broker_cluster_name),
            *_security_flags(config),
        )

    async def stop(self) -> None:
        """End them all."""
        running, self._running = self._running, []
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*map(_end, running))


def _shared_options(config: BrokerConfig) -> list[Option]:
    """What a filter server checks requests with, and how it speaks TLS: as its broker does."""
    default = type(config)()
    names = frozenset(options(AuthSettings)) | {name for name in options(ServerSettings) if name.startswith("tls_")}
    return [
        each
        for name, each in options(type(config)).items()
        if name in names - _OWN and getattr(config, name) != getattr(default, name)
    ]


_OWN: Final = frozenset({"auth_config_path", "audit_log_path", "init_authentication_user", "tls_config_file"})


def _security_flags(config: BrokerConfig) -> list[str]:
    flags = []
    for each in _shared_options(config):
        value = getattr(config, each.name)
        if each.secret:
            continue
        if isinstance(value, bool):
            flags.append(each.flag if value else f"--no-{each.flag[2:]}")
        else:
            flags += [each.flag, each.render(value)]
    if config.is_authenticated:
        folder = config.auth_config_path or config.config_dir / "auth"
        flags += ["--auth-config-path", str(folder), "--audit-log-path", str(folder / "audit-filtersrv.log")]
    return flags


def _secrets(config: BrokerConfig) -> dict[str, str]:
    return {list(each.environment)[-1]: getattr(config, each.name) for each in _shared_options(config) if each.secret}


async def _end(process: Process) -> None:
    try:
        async with asyncio.timeout(STOP_GRACE):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
