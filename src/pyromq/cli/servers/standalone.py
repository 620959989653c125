"""`pyromq standalone`: a name server and a broker in one process, for development, tests and small installations."""

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated

import typer

from pyromq.broker.standalone import Standalone
from pyromq.cli import logs
from pyromq.cli.servers import announcement
from pyromq.cli.servers.foreground import run
from pyromq.proxy.extra import MISSING, is_installed
from pyromq.proxy.settings import NO_GRPC

app = typer.Typer(add_completion=False)


@app.command("standalone")
def standalone(
    data: Annotated[Path, typer.Option(help="Folder of everything that is kept.")] = Path("pyromq-data"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    namesrv_port: Annotated[int, typer.Option(help="Port of the name server; 0 takes a free one.")] = 9876,
    broker_port: Annotated[int, typer.Option(help="Port of the broker; 0 takes a free one.")] = 10911,
    http_port: Annotated[
        int | None,
        typer.Option(
            help="Port of /metrics and /health; 8090 or, while that is taken, a free one. 0: a free one, -1: none."
        ),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            help="Port for gRPC clients, the official 5.x ones; 8081 or, while that is taken, a free one. "
            "0: a free one, -1: none."
        ),
    ] = None,
    auth: Annotated[
        bool, typer.Option("--auth", help="Serve only what rules allow users; make the first with admin createUser.")
    ] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow a wider bind without authentication.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON with addresses, once ready.")] = False,
    log_level: logs.Level = logs.LogLevel.INFO,
    log_format: logs.Format = logs.LogFormat.TEXT,
) -> None:
    """Run a name server and a broker until SIGTERM or SIGINT.

    Everything is kept in one folder; the next start with the same folder resumes from there.
    """
    logs.configure(log_level, log_format)
    without_grpc = grpc_port is None and not is_installed()
    server = Standalone(
        data,
        host=host,
        namesrv_port=namesrv_port,
        broker_port=broker_port,
        http_port=http_port,
        grpc_port=NO_GRPC if without_grpc else grpc_port,
        insecure=insecure,
        settings={"authentication_enabled": "true", "authorization_enabled": "true"} if auth else None,
    )

    def announce() -> None:
        found = announcement.facts(server.running_broker, os.getpid())
        if json:
            typer.echo(jsonlib.dumps({"namesrv": server.namesrv_address} | announcement.plain(found)))
            return
        typer.echo(f"Ready. Clients connect to {server.namesrv_address} (broker {server.broker_address}).")
        for line in announcement.unregistered(found):
            typer.echo(line)
        if auth:
            typer.echo(
                f"Users are in {data / 'auth'}; add one: pyromq admin createUser -u NAME --folder {data / 'auth'}"
            )
        if server.http_address:
            typer.echo(f"Metrics at http://{server.http_address}/metrics. Data in {data.absolute()}. Ctrl-C stops.")
        for line in announcement.grpc(server.grpc_address) or ([f"{MISSING}."] if without_grpc else []):
            typer.echo(line)

    run(server, announce)
