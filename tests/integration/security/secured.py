"""A name server and a broker that know their users, and peers that sign."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from pyromq.auth.rules import Action, Decision, Entry, PolicyType, Resource, parse_sources
from pyromq.auth.users.access import Credentials, User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.broker.broker import Broker
from pyromq.broker.standalone import Standalone
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.remoting.client import Client
from pyromq.remoting.hooks import Signing
from pyromq.remoting.tls import ClientTls

TIMEOUT = 30.0
ROOT = Credentials("root", "root-secret-1")
ALICE = Credentials("alice", "alice-secret-1")
BOB = Credentials("bob", "bob-secret-1")
AUTH = {"authentication_enabled": "true", "authorization_enabled": "true"}


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await scenario

    asyncio.run(bounded())


def rule(resource: str, actions: Action, decision: Decision = Decision.ALLOW, *sources: str) -> Entry:
    return Entry(Resource.parse(resource), actions, decision, parse_sources(sources))


def users(path: Path, **rules: list[Entry]) -> AccessStore:
    """The folder of users of a standalone server: root may do everything, alice and bob what the rules say."""
    store = AccessStore(path / "auth")
    store.create_user(User(ROOT.access_key, ROOT.secret_key, UserType.SUPER))
    for credentials in (ALICE, BOB):
        store.create_user(User(credentials.access_key, credentials.secret_key))
    for name, entries in rules.items():
        store.add_rules(name, PolicyType.CUSTOM, entries)
    return store


def options(credentials: Credentials) -> dict[str, Any]:
    """For clients that are to sign."""
    return {"access_key": credentials.access_key, "secret_key": credentials.secret_key}


class Signer:
    """A raw client of one address that signs with these credentials, or does not sign at all."""

    def __init__(self, address: str, credentials: Credentials | None, tls: ClientTls | None = None) -> None:
        self.address = address
        hooks = (Signing(credentials.access_key, credentials.secret_key),) if credentials is not None else ()
        self.client = Client({}, hooks=hooks, tls=tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def call(
        self, code: int, header: Header | None = None, *, body: bytes = b"", ext: dict[str, str] | None = None
    ) -> Command:
        return await self.client.call(self.address, Command.request(code, header, body=body, ext=ext), TIMEOUT)

    async def route(self, topic: str) -> Command:
        return await self.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic=topic))


@asynccontextmanager
async def secured(path: Path, **settings: str) -> AsyncIterator[tuple[Standalone, Broker]]:
    """Running servers with authentication and authorisation."""
    server = Standalone(path, namesrv_port=0, broker_port=0, settings=AUTH | settings)
    await server.start()
    try:
        assert server.broker is not None
        yield server, server.broker
    finally:
        await server.stop()
