"""A master that comes back: before it serves anybody it takes over what the slave did that acted for it.

Consumer offsets and delay offsets are raised to the slave's, never lowered, and never beyond this log: what consumers
were done with is not delivered again, and nothing that only this log has is skipped.
"""

import asyncio
import logging

from pyromq.broker.cluster.members import Members
from pyromq.broker.core import Core
from pyromq.broker.replication.peer import Peer
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.replication import ExchangeBrokerHaInfoHeader
from pyromq.protocol.routes import MASTER_ID
from pyromq.store.timer.checkpoint import TimerCheckpoint

log = logging.getLogger(__name__)

TRIES = 3
PAUSE = 1.0


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
    identity, store, tables = core.identity, core.store, core.tables
    peer = Peer(core.client, lambda: slave)
    header = ExchangeBrokerHaInfoHeader(
        master_ha_address=identity.ha_address,
        master_flush_offset=store.progress.flushed,
        master_address=identity.address,
    )
    await peer.call(Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO, header))
    offsets = await peer.fetch(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable.decode)
    delays = await peer.fetch(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetTable.decode)
    timer = await peer.fetch(RequestCode.GET_TIMER_CHECK_POINT, TimerCheckpoint.decode)
    raised = tables.offsets.raise_to(offsets, store.max_offset)
    await tables.offsets.save()
    tables.delays.raise_to(delays, lambda level: store.max_offset(names.SCHEDULE_TOPIC, level - 1))
    await asyncio.to_thread(tables.delays.persist, tables.delays.table())
    log.info("took over from %s, which acted for this master: %d consumer offsets were further on", slave, raised)
    return timer
