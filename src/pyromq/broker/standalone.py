"""`Standalone`: a name server and a broker in one process, everything they keep in one folder."""

import json
import secrets
from pathlib import Path

from pyromq.auth.settings import AuthSettings
from pyromq.broker.broker import Broker
from pyromq.broker.cluster.addresses import advertised_host
from pyromq.broker.config import BrokerConfig
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.remoting.address import Address
from pyromq.settings.declaration import options

COMPLETE = {
    "enable_property_filter": "true",
    "recall_message_enable": "true",
    "enable_mixed_message_type": "true",
    "tls_test_mode": "true",
}
"""What Apache's broker leaves off until told otherwise; a server to try things on has it."""


_SHARED = frozenset(options(AuthSettings)) | {name for name in options(NamesrvConfig) if name.startswith("tls_")}
"""Settings that both servers get."""


class Standalone:
    """Start with `await start()`; port 0 takes free ports.

    server = Standalone(Path("data"), namesrv_port=0, broker_port=0)
    await server.start()
    print(server.namesrv_address, server.broker_address)
    await server.stop()

    `settings` are the broker's, by Python name; those about users, audit and TLS are the name server's too, and both
    share one folder of users.
    """

    def __init__(
        self,
        data: Path,
        *,
        host: str = "127.0.0.1",
        namesrv_port: int = 9876,
        broker_port: int = 10911,
        http_port: int | None = -1,
        grpc_port: int | None = -1,
        insecure: bool = False,
        settings: dict[str, str] | None = None,
    ) -> None:
        self._data = data
        self._host = host
        self._broker_port = broker_port
        self._http_port = http_port
        self._grpc_port = grpc_port
        self._insecure = insecure
        self._settings = _with_inner_user(data, settings or {})
        flags = {
            "host": host,
            "listen_port": str(namesrv_port),
            "insecure": "true" if insecure else "false",
            "kv_config_path": str(data / "namesrv" / "kvConfig.json"),
        }
        shared = {name: text for name, text in self._settings.items() if name in _SHARED}
        self.name_server = NameServer(NamesrvConfig.load(flags=flags | shared))
        self.broker: Broker | None = None

    @property
    def namesrv_address(self) -> str:
        """What clients connect to: for a bind to all addresses, the one this machine has towards others."""
        bound = Address.parse(self.name_server.address)
        return str(Address(advertised_host("", bound.host), bound.port))

    @property
    def broker_address(self) -> str:
        """What the name server tells them."""
        return self.running_broker.address

    @property
    def http_address(self) -> str | None:
        """Where metrics and health are served, if anywhere."""
        return self.running_broker.http_address

    @property
    def grpc_address(self) -> str | None:
        """Where gRPC clients connect to, if anywhere."""
        return self.running_broker.grpc_address

    @property
    def running_broker(self) -> Broker:
        """The broker, once there is one. Raises RuntimeError before."""
        if self.broker is None:
            raise RuntimeError("the server has not been started")
        return self.broker

    async def start(self) -> None:
        """Start both; nothing is left running when one cannot be. Raises as they do."""
        await self.name_server.start()
        flags = {
            "host": self._host,
            "listen_port": str(self._broker_port),
            "http_port": "" if self._http_port is None else str(self._http_port),
            "grpc_port": "" if self._grpc_port is None else str(self._grpc_port),
            "insecure": "true" if self._insecure else "false",
            "store_path_root_dir": str(self._data),
            "namesrv_addr": self.namesrv_address,
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


def _with_inner_user(data: Path, settings: dict[str, str]) -> dict[str, str]:
    """With authentication, both servers need a folder of users and a way to know each other."""
    if "true" not in (settings.get("authentication_enabled"), settings.get("acl_enable")):
        return settings
    inner = json.dumps({"accessKey": "pyromq-standalone", "secretKey": secrets.token_urlsafe(32)})
    return {
        "auth_config_path": str(data / "auth"),
        "inner_client_authentication_credentials": inner,
    } | settings
