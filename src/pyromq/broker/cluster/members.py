"""Who is alive under this broker's name, as its name servers know: asked about once a second, and when one says so.

A member counts while any name server that answers knows it, so that a name server which lost the master makes no slave
act for one that the others still see. While none answers, what was known last stays.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from pyromq.broker.core import Core
from pyromq.broker.part import Every, Part
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.route import BrokerMemberGroupBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import BrokerHeartbeatHeader, GetBrokerMemberGroupHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.config import BrokerRole

log = logging.getLogger(__name__)

CALL_TIMEOUT = 3.0


class Members(Part):
    """Gives signs of life to the name servers, and on a slave looks who else does."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._asked = asyncio.Event()
        self.listeners: list[Callable[[], None]] = []
        """Called after each look that got an answer."""
        self.addresses: dict[int, str] = {}
        """Of every member by broker id, this one included once it is registered."""

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: self._notified}

    def every(self) -> Iterable[Every]:
        """Only where a slave may act for its master."""
        if not self._core.config.enable_slave_acting_master:
            return
        yield Every(self._core.config.broker_heartbeat_interval / 1000, self.beat)
        if self._core.config.broker_role is BrokerRole.SLAVE:
            yield Every(CALL_TIMEOUT, self.keep, at_once=True)

    @property
    def smallest(self) -> int | None:
        """The smallest broker id; None while nothing is known."""
        return min(self.addresses, default=None)

    async def keep(self) -> None:
        """Look again and again."""
        period = self._core.config.sync_broker_member_group_period / 1000
        while True:
            self._asked.clear()
            try:
                if await self.look():
                    for listener in self.listeners:
                        listener()
            except Exception:
                log.exception("looking for the members of the group failed")
            try:
                async with asyncio.timeout(period):
                    await self._asked.wait()
            except TimeoutError:
                pass

    async def look(self) -> bool:
        """Ask every name server once; False when none answered."""
        answers = await asyncio.gather(*(self._ask(address) for address in self._core.config.namesrv_addr))
        known = [members for members in answers if members is not None]
        if not known:
            return False
        self.addresses = {broker_id: address for members in known for broker_id, address in members.items()}
        return True

    async def beat(self) -> None:
        """One sign of life to every name server."""
        identity = self._core.identity
        header = BrokerHeartbeatHeader(
            cluster_name=identity.cluster,
            broker_addr=identity.address,
            broker_name=identity.name,
            broker_id=identity.broker_id,
            heartbeat_timeout_mills=self._core.config.broker_not_active_timeout_millis,
        )
        request = Command.request(RequestCode.BROKER_HEARTBEAT, header, oneway=True)
        await asyncio.gather(
            *(self._core.client.oneway(address, request, CALL_TIMEOUT) for address in self._core.config.namesrv_addr),
            return_exceptions=True,
        )

    async def _ask(self, address: str) -> dict[int, str] | None:
        header = GetBrokerMemberGroupHeader(
            cluster_name=self._core.identity.cluster, broker_name=self._core.identity.name
        )
        request = Command.request(RequestCode.GET_BROKER_MEMBER_GROUP, header)
        try:
            answer = await self._core.client.call(address, request, CALL_TIMEOUT)
            if answer.code != ResponseCode.SUCCESS:
                log.debug("name server %s does not tell who is alive: %s", address, answer.remark)
                return None
            return dict(BrokerMemberGroupBody.decode(answer.body).broker_member_group.broker_addrs)
        except PyroMQError as error:
            log.debug("name server %s does not tell who is alive: %s", address, error)
            return None

    def _notified(self, request: Command, _connection: Connection) -> Command:
        """Somebody says that the smallest id changed: look, rather than believe it."""
        self._asked.set()
        return request.reply()
