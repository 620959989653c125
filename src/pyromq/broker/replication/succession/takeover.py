"""A master that comes back: before it serves anybody it takes over what the slave did that acted for it.

Consumer offsets and delay offsets are raised to the slave's, never lowered, and never beyond this log: what consumers
were done with is not delivered again, and nothing that only this log has is skipped.
"""

import asyncio
import logging
from typing import TypeVar

from pyromq.broker.cluster.members import Members
from pyromq.broker.core import Core
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pyromq.protocol.codes import RequestCode, ResponseCode, request_name, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.replication import ExchangeBrokerHaInfoHeader
from pyromq.protocol.routes import MASTER_ID
from pyromq.store.timer.checkpoint import TimerCheckpoint

log = logging.getLogger(__name__)

CALL_TIMEOUT = 5.0
TRIES = 3
PAUSE = 1.0

Table = TypeVar("Table", bound=Body)


class TakeOverFailed(PyroMQError):  # noqa: N818 - the name says what happened
    """The slave answered with an error."""


async def take_over(core: Core, members: Members) -> TimerCheckpoint | None:
    """Raise the tables of a master that is not online yet; returns how far the slave's timer was, None without one.

    A slave that does not answer is given up after some tries: better a message twice than a broker that stays away.
    """
    await members.look()
    slaves = [members.addresses[broker_id] for broker_id in sorted(members.addresses) if broker_id != MASTER_ID]
    for slave in slaves[:1]:
        for attempt in range(TRIES):
            try:
                return await _take_from(core, slave)
            except PyroMQError as error:
                log.warning("the slave %s that acted for this master cannot be asked: %s", slave, error)
                if attempt + 1 < TRIES:
                    await asyncio.sleep(PAUSE)
    return None


async def _take_from(core: Core, slave: str) -> TimerCheckpoint | None:
    identity, store = core.identity, core.store
    await _call(
        core,
        slave,
        RequestCode.EXCHANGE_BROKER_HA_INFO,
        ExchangeBrokerHaInfoHeader(
            master_ha_address=identity.ha_address,
            master_flush_offset=store.progress.flushed,
            master_address=identity.address,
        ),
    )
    offsets = await _fetch(core, slave, RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable)
    delays = await _fetch(core, slave, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetTable)
    timer = TimerCheckpoint.decode((await _call(core, slave, RequestCode.GET_TIMER_CHECK_POINT)).body)
    raised = core.offsets.raise_to(offsets, store.max_offset)
    await core.offsets.save()
    core.tables.delays.raise_to(delays, lambda level: store.max_offset(names.SCHEDULE_TOPIC, level - 1))
    await asyncio.to_thread(core.tables.delays.persist, core.tables.delays.table())
    log.info("took over from %s, which acted for this master: %d consumer offsets were further on", slave, raised)
    return timer


async def _fetch(core: Core, address: str, code: RequestCode, kind: type[Table]) -> Table:
    return kind.decode((await _call(core, address, code)).body)


async def _call(core: Core, address: str, code: RequestCode, header: Header | None = None) -> Command:
    answer = await core.client.call(address, Command.request(code, header), CALL_TIMEOUT)
    if answer.code != ResponseCode.SUCCESS:
        raise TakeOverFailed(f"{request_name(code)}: {response_name(answer.code)}, {answer.remark}")
    return answer
