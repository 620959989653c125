"""Who may follow the log of a master that knows its users."""

import asyncio
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.replication import CompareLogHeader, CompareLogResponseHeader
from tests.integration.broker.servers import until
from tests.integration.security.secured import ROOT, Signer, run, secured, users

EMPTY = bytes(8)
ASKED_BY_ADMINISTRATORS = (
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_BROKER_HA_STATUS,
)


async def is_refused(master: Broker, *words: bytes) -> bool:
    """Whether the port ends a connection that says this; otherwise it is a follower, until it leaves."""
    assert master.core.ports.replicas.address is not None
    reader, writer = await asyncio.open_connection(*master.core.ports.replicas.address)
    try:
        writer.write(b"".join(words))
        ended = asyncio.ensure_future(reader.read(1))
        await until(lambda: ended.done() or bool(master.core.ports.replicas.followers()))
        return not master.core.ports.replicas.followers()
    finally:
        writer.close()
        await asyncio.gather(ended, return_exceptions=True)
        await until(lambda: not master.core.ports.replicas.followers())


def test_what_administrators_ask_opens_the_port_to_nobody(tmp_path: Path) -> None:
    users(tmp_path)

    async def scenario() -> None:
        async with secured(tmp_path) as (server, master), Signer(server.broker_address, ROOT) as root:
            for code in ASKED_BY_ADMINISTRATORS:
                assert (await root.call(code)).code == ResponseCode.SUCCESS
            assert await is_refused(master, EMPTY)
            assert (await root.call(RequestCode.EXCHANGE_BROKER_HA_INFO)).code == ResponseCode.SUCCESS
            assert not await is_refused(master, EMPTY), "that is what a slave asks before it follows"

    run(scenario())


def test_a_ticket_lets_in_one_connection_and_not_the_address(tmp_path: Path) -> None:
    users(tmp_path)

    async def scenario() -> None:
        async with secured(tmp_path) as (server, master), Signer(server.broker_address, ROOT) as root:
            answer = await root.call(RequestCode.COMPARE_LOG, CompareLogHeader(offset=0))
            ticket = answer.header(CompareLogResponseHeader).ticket
            assert ticket is not None
            shown = ticket.to_bytes(8, "big", signed=True)
            assert await is_refused(master, EMPTY), "somebody else at the same address"
            assert not await is_refused(master, shown, EMPTY)
            assert await is_refused(master, shown, EMPTY), "it is good once"

    run(scenario())


@pytest.mark.parametrize(("trusted", "refused"), [("127.0.0.0/8", False), ("10.0.0.0/8", True)])
def test_addresses_can_be_trusted_for_slaves_that_cannot_ask(tmp_path: Path, trusted: str, refused: bool) -> None:
    users(tmp_path)

    async def scenario() -> None:
        async with secured(tmp_path, ha_trusted_addresses=trusted) as (_, master):
            assert await is_refused(master, EMPTY) is refused

    run(scenario())
