"""`Standalone`: a name server and a broker in one process, everything they keep in one folder."""

from pathlib import Path

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer

COMPLETE = {"enable_property_filter": "true", "recall_message_enable": "true"}
"""What Apache's broker leaves off until told otherwise; a server to try things on has it."""


class Standalone:
    """Start with `await start()`; port 0 takes free ports.

    server = Standalone(Path("data"), namesrv_port=0, broker_port=0)
    await server.start()
    print(server.namesrv_address, server.broker_address)
    await server.stop()
    """

    def __init__(
        self,
        data: Path,
        *,
        host: str = "127.0.0.1",
        namesrv_port: int = 9876,
        broker_port: int = 10911,
        http_port: int = -1,
        insecure: bool = False,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._data = data
        self._host = host
        self._broker_port = broker_port
        self._http_port = http_port
        self._insecure = insecure
        self._settings = settings or {}
        self.name_server = NameServer(
            NamesrvConfig(
                host=host,
                listen_port=namesrv_port,
                insecure=insecure,
                kv_config_path=data / "namesrv" / "kvConfig.json",
            )
        )
        self.broker: Broker | None = None

    @property
    def namesrv_address(self) -> str:
        """What clients connect to."""
        return self.name_server.address

    @property
    def broker_address(self) -> str:
        """What the name server tells them."""
        return self._broker.address

    @property
    def http_address(self) -> str | None:
        """Where metrics and health are served, if anywhere."""
        return self._broker.http_address

    @property
    def _broker(self) -> Broker:
        if self.broker is None:
            raise RuntimeError("the server has not been started")
        return self.broker

    async def start(self) -> None:
        """Start both; nothing is left running when one cannot be. Raises as they do."""
        await self.name_server.start()
        flags = {
            "host": self._host,
            "listen_port": str(self._broker_port),
            "http_port": str(self._http_port),
            "insecure": "true" if self._insecure else "false",
            "store_path_root_dir": str(self._data),
            "namesrv_addr": self.name_server.address,
            "broker_name": "broker-a",
        }
        try:
            self.broker = Broker(BrokerConfig.load(flags=COMPLETE | flags | self._settings))
            await self.broker.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the broker, then the name server."""
        if self.broker is not None:
            await self.broker.stop()
        await self.name_server.stop()
