"""The `pyromq` command: presentation only, on top of the clients and the servers.

Each command is one module with a Typer `app`; it is imported when the command is used, so that a small command does
not pay for a large one.
"""

import logging
from importlib import metadata
from typing import Annotated, Any

import typer

from pyromq.cli import logs
from pyromq.cli.lazy import LazyGroup, Listing, load_app

SERVERS = "Servers"
TOOLS = "Tools"

COMMANDS = {
    "standalone": (
        "pyromq.cli.servers.standalone",
        Listing("Run a name server and a broker until SIGTERM or SIGINT.", SERVERS),
    ),
    "namesrv": ("pyromq.cli.servers.namesrv", Listing("Run a name server until SIGTERM or SIGINT.", SERVERS)),
    "broker": ("pyromq.cli.servers.broker", Listing("Run a broker until SIGTERM or SIGINT.", SERVERS)),
    "proxy": (
        "pyromq.cli.servers.proxy",
        Listing("Serve gRPC clients in front of a cluster until SIGTERM or SIGINT.", SERVERS),
    ),
    "send": (
        "pyromq.cli.messages.send",
        Listing("Send messages from files, standard input or the command line.", TOOLS),
    ),
    "consume": (
        "pyromq.cli.messages.consume",
        Listing("Print the messages of a topic, and those that follow until Ctrl-C.", TOOLS),
    ),
    "admin": (
        "pyromq.cli.admin",
        Listing("Look after a cluster: mqadmin's commands and flags, with tables, JSON and exit codes.", TOOLS),
    ),
    "pipeline": (
        "pyromq.cli.pipeline.command",
        Listing("Data pipelines on Spark: from topics to files, tables and topics.", TOOLS),
    ),
    "top": (
        "pyromq.cli.top",
        Listing("Show brokers, topics and groups with their rates and lag, again and again until Ctrl-C.", TOOLS),
    ),
    "bench": (
        "pyromq.cli.bench",
        Listing("Put load on a cluster: the options of RocketMQ's own benchmark scripts.", TOOLS),
    ),
    "store": (
        "pyromq.cli.store",
        Listing("Look at a store on disk, and repair it.", TOOLS),
    ),
    "cert": (
        "pyromq.cli.servers.cert",
        Listing("Make certificates for development: an authority, and what it signs for servers and clients.", TOOLS),
    ),
    "demo": (
        "pyromq.cli.demo",
        Listing("Show the main job: orders in, a Spark pipeline, revenue out, and the books checked.", TOOLS),
    ),
    "reference": ("pyromq.cli.reference", Listing("Print a page of docs/reference.", TOOLS, hidden=True)),
    "filtersrv": (
        "pyromq.cli.servers.filtersrv",
        Listing(
            "Run a filter server for one broker until SIGTERM or SIGINT, or until the broker is gone.", hidden=True
        ),
    ),
}


class Commands(LazyGroup):
    """The table above as a command group."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__({name: listing for name, (_, listing) in COMMANDS.items()}, **attributes)

    def load(self, name: str) -> Any:
        return load_app(COMMANDS[name][0])


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _say_version(wanted: bool) -> None:
    if wanted:
        from pyromq.native import core  # noqa: PLC0415 - commands that do not need it start without it

        typer.echo(f"pyromq {metadata.version('pyromq')}, {core}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version, and which core runs."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what clients do, on standard error.")] = False,
) -> None:
    """RocketMQ in Python: servers, clients and tools."""
    if verbose:
        logs.configure(logs.LogLevel.INFO, logs.LogFormat.TEXT)
    else:
        # Tools say themselves what went wrong, in one line; servers configure their logging.
        logging.getLogger("pyromq").addHandler(logging.NullHandler())


def main() -> None:
    """Entry point of the console script."""
    app()
