"""A server that answers as S3 does, for tests: moto's, in a thread, with one bucket. It can go away and come back."""

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

from pyromq.spark.storage.place import Options, open_store
from pyromq.spark.storage.store import Store

BUCKET = "lake"


@dataclass
class ObjectServer:
    """The server and how it is reached."""

    server: ThreadedMotoServer
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage(self) -> dict[str, dict[str, str]]:
        return {"s3": {"endpoint_url": self.url, "key": "key", "secret": "secret"}}

    def store(self, name: str) -> Store:
        options: Options = self.storage
        return open_store(f"s3://{BUCKET}/{name}", options, shared=True)

    def ask_for_keys(self, wanted: bool) -> None:
        """Whether it refuses keys that nobody was given, as those of the tests."""
        count = b"0" if wanted else b"1000000"
        kind = {"content-type": "text/plain"}
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=count, headers=kind)  # noqa: S310 - its own
        urllib.request.urlopen(request, timeout=60).close()  # noqa: S310 - the same

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        """Again, on the same port and with what it had."""
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    found = ObjectServer(server, server.get_host_and_port()[1])
    store = found.store("")
    try:
        store._system.mkdir(BUCKET)  # type: ignore[attr-defined]  # an ObjectStore
        yield found
    finally:
        found.stop()
        moto_api_backend.reset()
