"""`Roster`: tells brokers who is there, so that they list clients, tell groups of each other and know whom to ask.

Where each client has a connection of its own, its heartbeat goes there. In front of a cluster the proxy itself is the
client of every broker, and one heartbeat of its own names all topics and groups of those it serves.
"""

import asyncio
import logging
import os
import platform
from collections.abc import Iterable
from typing import Final

from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from pyromq.protocol.bodies.enums import ConsumeType
from pyromq.protocol.bounds import GROUPS, SUBSCRIPTIONS
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import UnregisterClientHeader
from pyromq.protocol.release import CURRENT, Language, language_from_name, version_from_name
from pyromq.proxy.caller import Caller
from pyromq.proxy.clients.profile import Profile
from pyromq.proxy.clients.sessions import Session, Sessions
from pyromq.proxy.core import Core
from pyromq.proxy.schema.enums import ClientType
from pyromq.proxy.status import refused_by

log = logging.getLogger(__name__)

TIMEOUT: Final = 3.0
INTERVAL: Final = 30.0
GATHERING: Final = 0.1
"""Seconds for which clients that come together are awaited, before brokers are told of them."""
_ACTIVE = (ClientType.SIMPLE_CONSUMER, ClientType.PULL_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)
_LANGUAGES: Final = {"GOLANG": Language.GO, "DOT_NET": Language.DOTNET, "C#": Language.DOTNET}


class Roster:
    """`tell` after each change and heartbeat of a client, `leave` when it is gone; `run` is a task of the proxy."""

    def __init__(self, core: Core, sessions: Sessions) -> None:
        self._core = core
        self._sessions = sessions
        self._client_id = f"{platform.node()}@{os.getpid()}@pyromq-proxy"
        self._changed = asyncio.Event()
        self._told: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    async def tell(self, session: Session) -> None:
        """A client is there. Raises Refusal when its user may not what it says, or a broker does not take it."""
        command = heartbeat_of(session)
        if not self._core.cluster.has_links:
            self._core.doorkeeper.permit(session.caller, command)
            if self._said() != self._told:
                self._changed.set()
            return
        for broker in await self._core.cluster.brokers():
            response = await self._core.ask(session.caller, broker, command, TIMEOUT)
            if response.code != ResponseCode.SUCCESS:
                raise refused_by(response)

    async def produces(self, caller: Caller, topic: str) -> None:
        """A client sends a half message: from now on it can be asked how transactions of the topic ended.

        Clients name their topics in settings, but send those anew only every few minutes. Raises Refusal for those who
        may not send to the topic: whoever is asked gets the message.
        """
        session = self._sessions.seen(caller)
        topics = session.profile.topics
        if topic not in topics and len(topics) < SUBSCRIPTIONS.most:
            self._core.doorkeeper.permit(caller, publication(topic))
            topics.add(topic)
            await self.tell(session)

    def leave(self, session: Session) -> None:
        """A client is gone."""
        self._core.cluster.forget(session.caller.client_id)
        self._changed.set()

    async def run(self) -> None:
        """Send heartbeats of the proxy's own, until cancelled; at once when what they say has changed."""
        if self._core.cluster.has_links:
            return
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), INTERVAL)
                await asyncio.sleep(GATHERING)
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self.beat()
            except PyroMQError as error:
                log.warning("brokers were not told who is there: %s", error)

    async def beat(self) -> None:
        """Tell every broker of all topics and groups, and of those that are gone."""
        said = self._said()
        gone = self._told[0] - said[0], self._told[1] - said[1]
        self._told = said
        sessions = list(self._sessions)
        if not sessions and not any(gone):
            return
        beat = Command.request(RequestCode.HEART_BEAT, body=self._all(sessions).encode())
        commands = [beat] if sessions else []
        commands += [_unregister(self._client_id, producer_group=topic) for topic in gone[0]]
        commands += [_unregister(self._client_id, consumer_group=group) for group in gone[1]]
        cluster = self._core.cluster
        asked = [
            cluster.ask(None, broker, Command(each.code, fields=each.fields, body=each.body), TIMEOUT)
            for broker in await cluster.brokers()
            for each in commands
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                log.warning("a broker was not told who is there: %s", outcome)
            elif outcome.code != ResponseCode.SUCCESS:
                log.warning("a broker did not take the heartbeat: %s", outcome.remark)

    def _said(self) -> tuple[frozenset[str], frozenset[str]]:
        """Topics and groups of all clients."""
        topics = frozenset(topic for session in self._sessions for topic in session.profile.topics)
        return topics, frozenset(session.profile.group for session in self._sessions if session.profile.group)

    def _all(self, sessions: Iterable[Session]) -> HeartbeatData:
        groups: dict[str, Session] = {}
        topics: set[str] = set()
        for session in sessions:
            topics |= session.profile.topics
            group = session.profile.group
            if group and (group not in groups or session.profile.subscriptions):
                groups[group] = session
        return HeartbeatData(
            client_id=self._client_id,
            producer_data_set=[ProducerData(group_name=topic) for topic in sorted(topics)[: GROUPS.most]],
            consumer_data_set=[_consumer(each) for _, each in sorted(groups.items())[: GROUPS.most]],
        )


def heartbeat_of(session: Session) -> Command:
    """HEART_BEAT, as the client would send it if it spoke remoting."""
    caller, profile = session.caller, session.profile
    # Without settings nobody knows what it subscribed to, so its broker is to keep what it remembers.
    unknown = session.settings is None and bool(profile.group)
    data = HeartbeatData(
        client_id=caller.client_id,
        producer_data_set=[ProducerData(group_name=topic) for topic in sorted(profile.topics)],
        consumer_data_set=[_consumer(session)] if profile.group else [],
        heartbeat_fingerprint=1 if unknown else 0,
        without_sub=unknown,
    )
    command = Command.request(RequestCode.HEART_BEAT, body=data.encode())
    command.language = _LANGUAGES.get(caller.language.upper()) or language_from_name(caller.language) or Language.OTHER
    version = version_from_name(caller.version)
    command.version = CURRENT if version is None else version
    return command


def publication(topic: str) -> Command:
    """What a producer of a topic must be allowed."""
    return Command.request(RequestCode.SEND_MESSAGE_V2, ext={"b": topic})


def consume_type(profile: Profile) -> ConsumeType:
    """How brokers call the way in which a client consumes."""
    return ConsumeType.CONSUME_ACTIVELY if profile.client_type in _ACTIVE else ConsumeType.CONSUME_PASSIVELY


def _consumer(session: Session) -> ConsumerData:
    profile = session.profile
    return ConsumerData(
        group_name=profile.group,
        consume_type=consume_type(profile),
        subscription_data_set=list(profile.subscriptions.values()),
    )


def _unregister(client_id: str, *, producer_group: str | None = None, consumer_group: str | None = None) -> Command:
    header = UnregisterClientHeader(client_id=client_id, producer_group=producer_group, consumer_group=consumer_group)
    return Command.request(RequestCode.UNREGISTER_CLIENT, header)
