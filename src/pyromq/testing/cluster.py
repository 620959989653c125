"""`Cluster`: a name server and brokers on an event loop of their own, beside the code under test."""

import asyncio
import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.client.blocking.admin import Admin
from pyromq.client.blocking.loop import BackgroundLoop
from pyromq.client.blocking.producer import Producer
from pyromq.client.blocking.pull_consumer import PullConsumer
from pyromq.client.errors import ServiceStateError
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.message import ReceivedMessage
from pyromq.settings.declaration import nearest, options
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import text_of

QUICK = {
    "flush_disk_type": "ASYNC_FLUSH",  # the folder goes with the test: no message has to outlive the machine
    "mapped_file_size_commit_log": str(64 << 20),
    "http_port": "-1",
    "timer_precision_ms": "100",
}
"""What differs from a broker's defaults; settings of your own beat it."""


class Cluster:
    """A running cluster, also usable with `async with`.

    `settings` are those of brokers, under their Python names or Apache's (`{"autoCreateTopicEnable": "false"}`). With
    `path` the data stays there, and the next cluster with it resumes; else it is in a temporary folder and is removed.
    """

    def __init__(
        self, *, brokers: int = 1, path: str | Path | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        self._number = brokers
        self._path = Path(path) if path is not None else None
        self._settings = {name: text_of(value) for name, value in (settings or {}).items()}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._loop: BackgroundLoop | None = None
        self._name_server: NameServer | None = None
        self._brokers: list[Broker] = []
        self._admin: Admin | None = None
        self._names = itertools.count()

    def start(self) -> None:
        """Start everything; when this returns, it accepts messages. Raises as the servers do."""
        if self._loop is not None:
            raise ServiceStateError("this cluster runs already")
        if self._path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pyromq-", ignore_cleanup_errors=True)
        root = self._path or Path(self._folder.name if self._folder is not None else "")
        self._loop = BackgroundLoop()
        try:
            self._loop.call(lambda: self._start(root))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything, and remove what is temporary; does nothing when it does not run."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.call(self._stop)
            finally:
                loop.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def namesrv(self) -> str:
        """What clients connect to, `host:port`."""
        if self._name_server is None or self._loop is None:
            raise ServiceStateError("this cluster does not run: start() it, or use it in a with block")
        return self._name_server.address

    @property
    def brokers(self) -> dict[str, str]:
        """Addresses of the brokers, by name."""
        return {broker.config.broker_name: broker.address for broker in self._brokers}

    @property
    def admin(self) -> Admin:
        """An admin client of this cluster, which goes with it."""
        if self._admin is None:
            admin = Admin(namesrv=self.namesrv, instance_name=self.unique("admin"))
            admin.start()
            self._admin = admin
        return self._admin

    def create_topic(self, topic: str, *, queues: int = 4, **options: Any) -> str:
        """Make a topic on all brokers and wait until clients can find it. Options are those of `Admin.create_topic`."""
        self.admin.create_topic(topic, queues=queues, **options)
        self.admin.wait_for_topic(topic, brokers=self._number, seconds=60.0)
        return topic

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """Everything in a topic, queue by queue; nobody's offsets change."""
        return self.admin.messages(topic, limit=1_000_000)

    def producer(self, group: str | None = None, **options: Any) -> Producer:
        """A producer of this cluster, to be used in a `with` block."""
        return Producer(group or self.unique("producers"), **self._client_options(options))

    def consumer(self, group: str | None = None, **options: Any) -> PullConsumer:
        """A pull consumer in a group of its own that begins with the oldest message, for a `with` block."""
        quick = {
            "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            "rebalance_min_interval": 0.05,
            "rebalance_interval": 1.0,
        }
        return PullConsumer(group or self.unique("consumers"), **self._client_options(quick | options))

    def unique(self, prefix: str) -> str:
        """A name that this cluster has not given out yet."""
        return f"{prefix}-{next(self._names)}"

    def _client_options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"namesrv": self.namesrv, "instance_name": self.unique("client"), **options}

    async def _start(self, root: Path) -> None:
        config = NamesrvConfig(host="127.0.0.1", listen_port=0, kv_config_path=root / "namesrv" / "kvConfig.json")
        self._name_server = NameServer(config)
        await self._name_server.start()
        for number in range(self._number):
            name = f"broker-{chr(ord('a') + number)}" if number < 26 else f"broker-{number}"
            flags = QUICK | {
                "host": "127.0.0.1",
                "listen_port": "0",
                "broker_name": name,
                "store_path_root_dir": str(root / name),
                "namesrv_addr": self._name_server.address,
            }
            broker = Broker(BrokerConfig.load(flags=flags | _python_names(self._settings)))
            self._brokers.append(broker)
            await broker.start()

    async def _stop(self) -> None:
        for broker in reversed(self._brokers):
            await broker.stop()
        self._brokers.clear()
        if self._name_server is not None:
            await self._name_server.stop()
            self._name_server = None


def _python_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings under their Python names. Raises ConfigError for one that brokers do not have."""
    known = options(BrokerConfig)
    by_key = {option.key: name for name, option in known.items()}
    found = {}
    for given, value in settings.items():
        name = by_key.get(given, given)
        if name not in known:
            near = nearest(given, [*known, *by_key])
            raise ConfigError(f"brokers have no setting {given!r}" + (f"; did you mean {near!r}?" if near else ""))
        found[name] = value
    return found
