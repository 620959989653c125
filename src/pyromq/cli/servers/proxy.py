"""`pyromq proxy`: serve gRPC clients in front of a cluster."""

import json as jsonlib
import os
from typing import TYPE_CHECKING, Annotated

import typer

from pyromq.broker.httpserver import HttpServer, Page
from pyromq.cli import logs
from pyromq.cli.servers import announcement
from pyromq.cli.servers.flags import fail, settings_command
from pyromq.cli.servers.foreground import run
from pyromq.proxy.extra import MISSING, is_installed
from pyromq.proxy.settings import NO_HTTP, ProxyConfig
from pyromq.remoting.address import Address

if TYPE_CHECKING:
    from pyromq.proxy.gateway import Gateway

app = typer.Typer(add_completion=False)


@app.command("proxy")
@settings_command(ProxyConfig)
def proxy(
    config: ProxyConfig,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON with the address, once ready.")] = False,
    log_level: logs.Level = logs.LogLevel.INFO,
    log_format: logs.Format = logs.LogFormat.TEXT,
) -> None:
    """Serve gRPC clients in front of a cluster until SIGTERM or SIGINT.

    Those are RocketMQ's official clients of version 5; the brokers may be PyroMQ's or Apache's. It keeps nothing: there
    may be several behind a balancer. Settings come from the defaults, then the property file (-c), then
    environment variables (PYROMQ_GRPC_PORT …), then the flags below.
    """
    logs.configure(log_level, log_format)
    if not is_installed():
        fail(MISSING)
    from pyromq.proxy.gateway import Gateway  # noqa: PLC0415 - protobuf, which --help does without

    gateway = Gateway(config)
    server = _WithPages(gateway)

    def announce() -> None:
        http = str(server.http_address) if server.http_address is not None else None
        if json:
            found = {"grpc": gateway.address, "http": http, "namesrv": ";".join(config.namesrv), "pid": os.getpid()}
            typer.echo(jsonlib.dumps(found))
            return
        typer.echo(f"gRPC clients connect to {gateway.address}; the name servers are {', '.join(config.namesrv)}.")
        for line in announcement.pages(http):
            typer.echo(line)

    run(server, announce)


class _WithPages:
    """The proxy with its pages of metrics and health, if there is to be a port for them."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._http = HttpServer({"/metrics": self._metrics, "/health": lambda: Page(b"ok\n")})
        self.http_address: Address | None = None

    async def start(self) -> None:
        await self._gateway.start()
        config = self._gateway.config
        if config.http_port != NO_HTTP:
            self.http_address = await self._http.start(config.http_host, config.http_port, config.server_tls())

    async def stop(self) -> None:
        await self._gateway.stop()
        await self._http.stop()

    def _metrics(self) -> Page:
        return Page(self._gateway.metrics(), "text/plain; version=0.0.4; charset=utf-8")
