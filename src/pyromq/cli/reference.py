"""`pyromq reference`: print a page of docs/reference, which are made from the code."""

import importlib
import pkgutil
from enum import StrEnum
from typing import Annotated

import typer

from pyromq.cli.commandpage import commands_page
from pyromq.settings.reference import reference

app = typer.Typer(add_completion=False)

INTRO = """\
Each setting has a key for property files (`-c FILE`; Apache's files load as they are), a flag and an environment
variable. Flags beat the environment, which beats the file. An unknown key is an error that names the nearest one.
*Reloadable* settings can be changed while the server runs (`updateNamesrvConfig`, `updateBrokerConfig`) and hold until
it stops; paths, addresses and secrets can neither be changed nor read remotely."""

CLIENT_INTRO = """\
Keyword arguments of `Producer`, `TransactionProducer`, `PushConsumer`, `PullConsumer` and `Admin`, or fields of the
`ProducerConfig`, `PushConfig`, `PullConfig` or `ClientConfig` that they take as `config`. Durations are seconds. An
argument beats the environment variable below its name, as RocketMQ's Java clients have it; there, durations are
milliseconds, but for `max_idle`. An unknown option is an error that names the nearest one, and an error of type
checkers. Settings do not change once a client is made."""


class Page(StrEnum):
    """Pages of docs/reference."""

    NAMESRV = "namesrv"
    BROKER = "broker"
    PROXY = "proxy"
    CLIENTS = "clients"
    COMMANDS = "commands"
    PERMISSIONS = "permissions"
    BOUNDS = "bounds"


SETTINGS = {
    Page.NAMESRV: ("Settings of the name server", INTRO, "pyromq.namesrv.config:NamesrvConfig"),
    Page.BROKER: ("Settings of the broker", INTRO, "pyromq.broker.config:BrokerConfig"),
    Page.PROXY: ("Settings of the proxy", INTRO, "pyromq.proxy.settings:ProxyConfig"),
    Page.CLIENTS: (
        "Options of clients",
        CLIENT_INTRO,
        "pyromq.client.config:ProducerConfig",
        "pyromq.client.consumer.config:PushConfig",
        "pyromq.client.consumer.config:PullConfig",
    ),
}
FILES = {
    Page.NAMESRV: "namesrv-settings.md",
    Page.BROKER: "broker-settings.md",
    Page.PROXY: "proxy-settings.md",
    Page.CLIENTS: "client-options.md",
    Page.COMMANDS: "commands.md",
    Page.PERMISSIONS: "permissions.md",
    Page.BOUNDS: "bounds.md",
}


def page(wanted: Page) -> str:
    """The Markdown text of one page."""
    if wanted is Page.COMMANDS:
        return commands_page()
    if wanted is Page.PERMISSIONS:
        return str(importlib.import_module("pyromq.auth.permissions").page())
    if wanted is Page.BOUNDS:
        return str(importlib.import_module("pyromq.protocol.bounds").page())
    title, intro, *classes = SETTINGS[wanted]
    return reference(title, intro, *map(pkgutil.resolve_name, classes))


@app.command("reference", hidden=True)
def print_page(wanted: Annotated[Page, typer.Argument(metavar="PAGE", help="Which page.")]) -> None:
    """Print a page of docs/reference."""
    typer.echo(page(wanted), nl=False)
