"""`FilterServer`: registers with its broker, takes classes from consumers, serves their pulls.

It belongs to one broker: when it cannot register there any more, it gives up, and the broker starts another.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from pyromq.auth.needs import Scene
from pyromq.clock import wall_clock
from pyromq.errors import PyroMQError
from pyromq.filtersrv.config import FilterServerConfig
from pyromq.filtersrv.errors import FilterServerError, RequestRefused
from pyromq.filtersrv.filters import FilterClasses
from pyromq.filtersrv.frames import MAX_SOURCE
from pyromq.filtersrv.pulls import FilteredPulls
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.filtersrv import (
    RegisterFilterServerHeader,
    RegisterFilterServerResponseHeader,
    RegisterMessageFilterClassHeader,
    class_crc,
)
from pyromq.protocol.names import check_consumer_group, check_topic
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError, RemotingError
from pyromq.remoting.server import Server

log = logging.getLogger(__name__)

REGISTER_INTERVAL = 10.0
REGISTER_TIMEOUT = 3.0
STOP_GRACE = 2.0

UploadRule = Callable[[RegisterMessageFilterClassHeader, Connection], str | None]
"""Who may upload: the reason why this one may not, or None. Where the permissions of users come in."""

Work = Callable[[Command, Connection], Awaitable[Command]]


class FilterServer:
    """Start with `await start()`. `gave_up` is called with the reason when the broker is gone."""

    def __init__(
        self,
        config: FilterServerConfig,
        *,
        gave_up: Callable[[str], None] = lambda _reason: None,
        may_upload: UploadRule | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._gave_up = gave_up
        self._may_upload = may_upload
        self.classes = FilterClasses(
            config.jail_limits(),
            clock,
            capacity=config.max_filter_classes,
            idle=config.filter_class_idle_time / 1000,
        )
        self._pulls = FilteredPulls(config, self.classes, self._call_broker)
        self._client = Client({}, tls=config.client_tls(), hooks=config.signing())
        self._handlers: dict[int, Handler] = {
            RequestCode.REGISTER_MESSAGE_FILTER_CLASS: self._guarded(self._upload),
            RequestCode.PULL_MESSAGE: self._guarded(self._pulls.serve),
        }
        self._gate = config.gate(config.users_folder, Scene(config.cluster_name), wall_clock)
        if self._gate is not None:
            self._handlers = self._gate.table(self._handlers)
        self._server = Server(
            self._handlers, limits=config.limits(), tls=config.server_tls(), strangers=config.is_authenticated
        )
        self._free = config.fs_server_async_semaphore_value
        self._address: Address | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def request_codes(self) -> frozenset[int]:
        """What it serves."""
        return frozenset(self._handlers)

    @property
    def address(self) -> str:
        """Where consumers find it."""
        return str(self._address)

    async def start(self) -> None:
        """Listen and register. Raises ConfigError, ConnectError, RemotingError or RequestRefused; nothing runs then."""
        self._config.check_exposure(authenticated=self._config.is_authenticated)
        try:
            self._address = await self._server.listen(self._config.host, self._config.listen_port)
            await self._register()
        except OSError as error:
            await self.stop()
            raise ConnectError(f"cannot listen on {self._config.host}:{self._config.listen_port}: {error}") from error
        except BaseException:
            await self.stop()
            raise
        self._task = asyncio.get_running_loop().create_task(self._keep_registered())

    async def stop(self) -> None:
        """End everything, the jails first."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.classes.close()
        await self._server.stop(STOP_GRACE)
        await self._client.close()
        if self._gate is not None:
            self._gate.close()

    async def _keep_registered(self) -> None:
        while True:
            await asyncio.sleep(REGISTER_INTERVAL)
            try:
                await self._register()
                await self.classes.forget_idle()
                if self._gate is not None:
                    self._gate.tick()
            except PyroMQError as error:
                log.warning("the filter server leaves: %s", error)
                self._gave_up(str(error))
                return

    async def _register(self) -> None:
        header = RegisterFilterServerHeader(filter_server_addr=self.address)
        answer = await self._call_broker(Command.request(RequestCode.REGISTER_FILTER_SERVER, header), REGISTER_TIMEOUT)
        if answer.code != ResponseCode.SUCCESS:
            raise FilterServerError(f"broker {self._config.connect_which_broker} does not want it: {answer.remark}")
        answer.header(RegisterFilterServerResponseHeader)

    async def _call_broker(self, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - passed on
        return await self._client.call(self._config.connect_which_broker, command, timeout)

    async def _upload(self, request: Command, connection: Connection) -> Command:
        header = request.header(RegisterMessageFilterClassHeader)
        check_topic(header.topic)
        check_consumer_group(header.consumer_group)
        self._check_allowed(header, connection)
        if len(request.body) > MAX_SOURCE:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"the source has {len(request.body)} bytes, at most {MAX_SOURCE} are taken",
            )
        if header.class_crc and class_crc(request.body) != header.class_crc:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "the source does not match its classCRC")
        try:
            source = bytes(request.body).decode()
        except UnicodeDecodeError:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "the source is not UTF-8") from None
        await self.classes.upload(header, source)
        return request.reply()

    def _check_allowed(self, header: RegisterMessageFilterClassHeader, connection: Connection) -> None:
        if not self._config.client_upload_filter_class_enable:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                "uploading filter classes is off: set clientUploadFilterClassEnable=true at the broker",
            )
        reason = self._may_upload(header, connection) if self._may_upload is not None else None
        if reason is not None:
            raise RequestRefused(ResponseCode.NO_PERMISSION, reason)

    def _guarded(self, work: Work) -> Handler:
        """Refusals become answers, and there is a bound on how much is under way."""

        async def serve(request: Command, connection: Connection) -> Command:
            if not self._free:
                return request.reply(
                    ResponseCode.SYSTEM_BUSY,
                    remark="system busy: as many requests as fsServerAsyncSemaphoreValue are under way, try again",
                )
            self._free -= 1
            try:
                return await work(request, connection)
            except RequestRefused as refused:
                return request.reply(refused.code, remark=refused.remark)
            except RemotingError as error:
                return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
            finally:
                self._free += 1

        return serve
