"""`pyromq broker`: run a broker in the foreground, or several of them."""

import contextlib
import json as jsonlib
import logging
import os
import sys
from typing import Annotated

import typer

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.fleet import plan
from pyromq.broker.fleet.supervised import Supervised
from pyromq.cli import logs
from pyromq.cli.servers import announcement
from pyromq.cli.servers.flags import fail, settings_command
from pyromq.cli.servers.foreground import Server, run
from pyromq.settings.errors import ConfigError

log = logging.getLogger(__name__)

app = typer.Typer(add_completion=False)

Processes = Annotated[
    int,
    typer.Option(
        min=1,
        max=plan.MOST,
        help="Brokers to run, a process each. Those after the first have its name with -1, -2 …, ports 10, 20 … higher "
        f"and folders below {plan.FOLDER}/ in its own.",
    ),
]


@app.command("broker")
@settings_command(BrokerConfig)
def broker(
    config: BrokerConfig,
    processes: Processes = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON with the address, once ready.")] = False,
    log_level: logs.Level = logs.LogLevel.INFO,
    log_format: logs.Format = logs.LogFormat.TEXT,
    supervised: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Settings come from the defaults, then the property file (-c), then environment variables (PYROMQ_BROKER_NAME …),
    then the flags below. Apache's broker.conf loads as it is. SIGHUP reads the file again: what the reference calls
    reloadable changes at once.

    With --processes it runs several, to use more than one core: one log, one page of metrics and health, and a broker
    that falls is started again.
    """
    logs.configure(log_level, log_format)
    try:
        if supervised is None:
            plan.check_left_over(config, processes)
        if processes > 1:
            _run_fleet(config, plan.members(config, processes), json, log_level, log_format)
            return
    except (ConfigError, OSError) as error:
        fail(str(error), code=2)
    server = Broker(config)

    def announce() -> None:
        found = announcement.facts(server, os.getpid())
        if json:
            typer.echo(jsonlib.dumps(announcement.plain(found)))
        else:
            places = announcement.pages(found.http) + announcement.grpc(found.grpc)
            typer.echo("\n".join(announcement.lines(config.broker_name, found) + places))

    reload = server.reload if config.has_file else None
    runner: Server = server if supervised is None else Supervised(server, supervised)
    run(runner, announce, reload)


def _run_fleet(
    config: BrokerConfig,
    members: list[plan.Member],
    json: bool,
    log_level: logs.LogLevel,
    log_format: logs.LogFormat,
) -> None:
    from pyromq.broker.fleet.logstream import named  # noqa: PLC0415 - for those who run several
    from pyromq.broker.fleet.process import Launcher  # noqa: PLC0415
    from pyromq.broker.fleet.supervisor import Fleet  # noqa: PLC0415

    def told(name: str, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads the log any more
            sys.stderr.write(named(name, line, as_json=log_format is logs.LogFormat.JSON) + "\n")
            sys.stderr.flush()

    fleet = Fleet(config, members, Launcher(told, ["--log-level", log_level, "--log-format", log_format]))

    def announce() -> None:
        http = str(fleet.http_address) if fleet.http_address is not None else None
        if json:
            brokers = [{"name": name} | announcement.plain(found) for name, found in fleet.facts.items()]
            typer.echo(jsonlib.dumps({"brokers": brokers, "http": http, "pid": os.getpid()}))
            return
        lines = [line for name, found in fleet.facts.items() for line in announcement.lines(name, found)]
        typer.echo("\n".join(lines + announcement.pages(http)))

    cores = os.cpu_count() or 1
    if len(members) > cores:
        log.warning("%d brokers share %d cores: more than one for each core is not faster", len(members), cores)
    run(fleet, announce, fleet.reload if config.has_file else None)
