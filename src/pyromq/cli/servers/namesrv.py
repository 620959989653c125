"""`pyromq namesrv`: run a name server in the foreground."""

import json as jsonlib
import os
from typing import Annotated

import typer

from pyromq.cli import logs
from pyromq.cli.servers.flags import settings_command
from pyromq.cli.servers.foreground import run
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer

app = typer.Typer(add_completion=False)


@app.command("namesrv")
@settings_command(NamesrvConfig)
def namesrv(
    config: NamesrvConfig,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON with the address, once ready.")] = False,
    log_level: logs.Level = logs.LogLevel.INFO,
    log_format: logs.Format = logs.LogFormat.TEXT,
) -> None:
    """Run a name server until SIGTERM or SIGINT.

    Settings come from the defaults, then the property file (-c), then environment variables (PYROMQ_LISTEN_PORT …),
    then the flags below. SIGHUP reads the file again: what the reference calls reloadable changes at once.
    """
    logs.configure(log_level, log_format)
    server = NameServer(config)

    def announce() -> None:
        if json:
            typer.echo(jsonlib.dumps({"namesrv": server.address, "pid": os.getpid()}))
        else:
            typer.echo(f"The name server listens on {server.address}")

    run(server, announce, server.reload if config.has_file else None)
