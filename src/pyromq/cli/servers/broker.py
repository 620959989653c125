"""`pyromq broker`: run a broker in the foreground."""

import json as jsonlib
import os
from typing import Annotated

import typer

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.cli import logs
from pyromq.cli.servers import announcement
from pyromq.cli.servers.flags import settings_command
from pyromq.cli.servers.foreground import run

app = typer.Typer(add_completion=False)


@app.command("broker")
@settings_command(BrokerConfig)
def broker(
    config: BrokerConfig,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON with the address, once ready.")] = False,
    log_level: logs.Level = logs.LogLevel.INFO,
    log_format: logs.Format = logs.LogFormat.TEXT,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Settings come from the defaults, then the property file (-c), then environment variables (PYROMQ_BROKER_NAME …),
    then the flags below. Apache's broker.conf loads as it is. SIGHUP reads the file again: what the reference calls
    reloadable changes at once.
    """
    logs.configure(log_level, log_format)
    server = Broker(config)

    def announce() -> None:
        if json:
            typer.echo(jsonlib.dumps(announcement.facts(server) | {"pid": os.getpid()}))
        else:
            typer.echo("\n".join(announcement.lines(server)))

    run(server, announce, server.reload if config.has_file else None)
