"""Popping from a real broker by raw commands."""

from typing import Any

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from tests.integration.broker.servers import Peer
from tests.unit.broker.pop.speaking import Popped, ack_header, change_header, changed, messages_of, pop_header

HOLD = 25_000


async def pop_command(peer: Peer, topic: str = "orders", group: str = "g", **options: Any) -> Command:
    """One pop, with the options of `pop_header`."""
    return await peer.call(RequestCode.POP_MESSAGE, pop_header(topic, group, **options))


async def pop(peer: Peer, topic: str = "orders", group: str = "g", **options: Any) -> list[Popped]:
    """The messages of one pop."""
    return messages_of(await pop_command(peer, topic, group, **options), group)


async def pop_until(peer: Peer, count: int, topic: str = "orders", group: str = "g", **options: Any) -> list[Popped]:
    """Pop, waiting each time, until there are so many messages."""
    popped: list[Popped] = []
    while len(popped) < count:
        popped += await pop(peer, topic, group, **{"hold": HOLD, **options})
    return popped


async def ack(peer: Peer, popped: Popped) -> Command:
    return await peer.call(RequestCode.ACK_MESSAGE, ack_header(popped))


async def acked(peer: Peer, *popped: Popped) -> None:
    """Acknowledge and insist on success."""
    for each in popped:
        answer = await ack(peer, each)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def renew(peer: Peer, popped: Popped, invisible: int) -> Popped:
    """Change the invisible time; the message with its new handle."""
    return changed(popped, await peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change_header(popped, invisible)))
