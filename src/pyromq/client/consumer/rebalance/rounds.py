"""Rebalancing: which queues are mine, found out again and again, and the difference to what I own carried out.

The list of queues comes from the routes, the list of members from a broker of the topic. A round that could not settle
everything is repeated soon; otherwise rounds come by period, and at once when a broker reports a change.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from pyromq.client.clock import sleep
from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.rebalance.lastowner import last_owners
from pyromq.client.errors import BrokerError, ClientError
from pyromq.protocol.bodies.enums import MessageModel, MessageRequestMode
from pyromq.protocol.bodies.queues import QueryAssignmentRequest, QueryAssignmentResponse
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

RETRY_SOON = 0.5
"""After a queue could not be left or taken yet."""
NOTICE_INTERVAL = 0.1
"""Between rounds for changes that brokers report: short, because until then two members consume the same."""


class QueueOwner(Protocol):
    """The consumer whose queues are balanced."""

    @property
    def balancing(self) -> bool:
        """False while it is paused or not running."""

    def owned(self, topic: str) -> Collection[MessageQueue]:
        """Queues it has of a topic."""

    def owned_topics(self) -> Collection[str]:
        """Topics it has queues of."""

    def stuck(self, topic: str) -> Collection[MessageQueue]:
        """Those of them that do not work any more; they are given up and, if they are still its own, taken again."""

    async def take_over(self, queue: MessageQueue, last_owner: str | None) -> bool:
        """Begin with a queue, when the live member that had it before has let go; False when it is not possible yet."""

    async def give_up(self, queue: MessageQueue) -> bool:
        """Leave a queue; False when that is not possible yet."""

    async def changed(self, topic: str, queues: Collection[MessageQueue], mine: Collection[MessageQueue]) -> None:
        """What it owns of a topic is different now."""


class PopOwner(Protocol):
    """A consumer that lets the broker decide, which may want queues popped instead of pulled."""

    async def pop(self, topic: str, queues: Collection[MessageQueue], *, pulls: bool) -> None:
        """The broker wants these queues popped; `pulls` says that it wants others pulled."""

    async def pop_only(self, topics: Collection[str]) -> None:
        """Pop no other topics than these."""


class Rebalance:
    """The rounds of one consumer."""

    def __init__(self, member: Member[ConsumerConfig], owner: QueueOwner, *, by_broker: PopOwner | None = None) -> None:
        config = member.config
        self._instance = member.instance
        self._clock = member.clock
        self._group = member.group
        self._model = MessageModel(config.model)
        self._strategy = config.allocation
        self._subscriptions = member.subscriptions
        self._owner = owner
        self._interval = config.rebalance_interval
        self._min_interval = config.rebalance_min_interval
        self._by_broker = by_broker
        self._wake = asyncio.Event()
        self._told = asyncio.Event()
        self._before: dict[str, tuple[list[MessageQueue], list[str]]] = {}
        """Queues and members of each topic in the last round that settled it."""
        self._running = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._last = float("-inf")
        self._sooner: float | None = None

    def start(self) -> None:
        """Begin with the periodic rounds."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"rebalance {self._group}")

    def wake(self, *, at_once: bool = False) -> None:
        """Something changed: balance soon, or `at_once` when others act on it at this moment too."""
        self._wake.set()
        if at_once:
            self._told.set()

    async def stop(self) -> None:
        """No more rounds; one that runs is finished."""
        async with self._running:
            task, self._task = self._task, None
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def round(self) -> bool:
        """One round now; whether everything is as it should be."""
        async with self._running:
            self._last = self._clock.monotonic()
            self._told.clear()
            self._wake.clear()  # whatever is reported from here on may come too late for this round
            self._sooner = None
            if not self._owner.balancing:
                return True
            balanced = True
            for topic in list(self._subscriptions.by_topic):
                try:
                    balanced &= await self._topic(topic)
                except ClientError as error:
                    log.warning("queues of topic %s not balanced: %s", topic, error)
                    balanced = False
                except Exception:
                    log.exception("queues of topic %s could not be balanced", topic)
                    balanced = False
            for topic in [topic for topic in self._owner.owned_topics() if topic not in self._subscriptions.by_topic]:
                balanced &= await self._apply(topic, [], [])
            if self._by_broker is not None:
                await self._by_broker.pop_only(self._subscriptions.by_topic)
            return balanced

    async def _run(self) -> None:
        wait = self._interval
        while True:
            await self._pause(self._wake, wait)
            # Changes come in swarms: what is reported soon after a round waits for those that follow it.
            least = min(self._min_interval, wait)
            if (rest := self._last + least - self._clock.monotonic()) > 0:
                await self._pause(self._told, rest)
            if (rest := self._last + min(NOTICE_INTERVAL, least) - self._clock.monotonic()) > 0:
                await sleep(self._clock, rest)
            balanced = await self.round()
            wait = self._interval if balanced else self._min_interval
            if self._sooner is not None:
                wait = min(wait, self._sooner)

    async def _pause(self, event: asyncio.Event, seconds: float) -> None:
        """Until the time is over or somebody wakes us."""
        timer = self._clock.call_later(seconds, event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()

    async def _topic(self, topic: str) -> bool:
        queues = self._subscriptions.queues.get(topic)
        if queues is None:
            # The retry topic, for one, exists only after the first heartbeat of a new group.
            await self._instance.routes.refresh(topic)
            queues = self._subscriptions.queues.get(topic)
        if queues is None:
            return True
        if self._model == MessageModel.BROADCASTING:
            return await self._apply(topic, queues, queues)
        popper = self._by_broker
        if popper is not None and (answer := await self._assignment(topic)) is not None:
            assigned = answer.message_queue_assignments
            if assigned is None:
                return True
            popped = [item.message_queue for item in assigned if item.mode == MessageRequestMode.POP]
            pulled = [item.message_queue for item in assigned if item.mode != MessageRequestMode.POP]
            await popper.pop(topic, popped, pulls=bool(pulled))
            return await self._apply(topic, queues, pulled)
        members = await self._instance.consumer_ids(topic, self._group)
        if not members and await self._instance.heart.beat_all():  # a broker that was just learned of
            members = await self._instance.consumer_ids(topic, self._group)
        if not members:
            log.info("members of group %s are not known yet: queues of %s stay as they are", self._group, topic)
            return False
        me, shared, sharing = self._instance.client_id, sorted(queues), sorted(members)
        try:
            mine = self._strategy.allocate(me, shared, sharing)
        except ClientError:
            raise
        except Exception as error:
            raise ClientError(f"allocation strategy {self._strategy.name} failed: {error}") from error
        before = self._before.get(topic) or (shared, [member for member in sharing if member != me])
        new = set(mine).difference(self._owner.owned(topic))
        owners = last_owners(self._strategy, *before, new)
        alive = set(sharing) - {me}
        settled = await self._apply(topic, queues, mine, {q: owner for q, owner in owners.items() if owner in alive})
        if settled:
            self._before[topic] = shared, sharing
        return settled

    async def _apply(
        self,
        topic: str,
        queues: Collection[MessageQueue],
        mine: Iterable[MessageQueue],
        owners: Mapping[MessageQueue, str] | None = None,
    ) -> bool:
        """Leave what is not mine any more, begin with what is new; `owners` are those who had it before."""
        wanted = set(mine)
        changed, settled = False, True
        stuck = set(self._owner.stuck(topic))
        unwanted = [queue for queue in sorted(self._owner.owned(topic)) if queue not in wanted or queue in stuck]
        # Side by side: each of them may have to wait for what is in work.
        for left in await asyncio.gather(*map(self._owner.give_up, unwanted)):
            if left:
                changed = True
            else:
                settled = False
                self._sooner = RETRY_SOON
        owned = set(self._owner.owned(topic))
        for queue in sorted(wanted - owned):
            if await self._owner.take_over(queue, (owners or {}).get(queue)):
                changed = True
            else:
                settled = False
                self._sooner = RETRY_SOON
        if changed:
            await self._owner.changed(topic, queues, wanted)
        return settled and set(self._owner.owned(topic)) == wanted

    async def _assignment(self, topic: str) -> QueryAssignmentResponse | None:
        """What the broker says is mine; None when it does not divide queues."""
        address = self._instance.topology.address_by_topic(topic)
        if address is None:
            return None
        body = QueryAssignmentRequest(
            client_id=self._instance.client_id,
            consumer_group=self._group,
            message_model=self._model,
            strategy_name=self._strategy.name,
            topic=topic,
        )
        command = Command.request(RequestCode.QUERY_ASSIGNMENT, body=body.encode())
        try:
            response = await self._instance.invoke(self._instance.vip(address), command)
            return QueryAssignmentResponse.decode(response.body)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            log.warning("broker %s does not divide queues; this client does it itself", address)
            self._by_broker = None
            return None
        except (RemotingError, ProtocolError) as error:
            raise ClientError(f"assignment of topic {topic} not learned: {error}", retryable=True) from error
