"""`pyromq filtersrv`: run a filter server in the foreground. Brokers start it; nobody needs to."""

import signal

import typer

from pyromq.cli import logs
from pyromq.cli.servers.flags import settings_command
from pyromq.cli.servers.foreground import run
from pyromq.filtersrv.config import FilterServerConfig
from pyromq.filtersrv.server import FilterServer

app = typer.Typer(add_completion=False)


@app.command("filtersrv")
@settings_command(FilterServerConfig)
def filtersrv(
    config: FilterServerConfig,
    log_level: logs.Level = logs.LogLevel.INFO,
    log_format: logs.Format = logs.LogFormat.TEXT,
) -> None:
    """Run a filter server for one broker until SIGTERM or SIGINT, or until the broker is gone."""
    logs.configure(log_level, log_format)
    server = FilterServer(config, gave_up=lambda _reason: signal.raise_signal(signal.SIGTERM))
    run(server, lambda: typer.echo(f"The filter server of {config.connect_which_broker} listens on {server.address}"))
