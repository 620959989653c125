"""`pyromq reference`: print a page of docs/reference, which are made from the code."""

import importlib
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


class Page(StrEnum):
    """Pages of docs/reference."""

    NAMESRV = "namesrv"
    BROKER = "broker"
    COMMANDS = "commands"
    PERMISSIONS = "permissions"
    BOUNDS = "bounds"


SETTINGS = {
    Page.NAMESRV: ("pyromq.namesrv.config", "NamesrvConfig", "Settings of the name server"),
    Page.BROKER: ("pyromq.broker.config", "BrokerConfig", "Settings of the broker"),
}
FILES = {
    Page.NAMESRV: "namesrv-settings.md",
    Page.BROKER: "broker-settings.md",
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
    module, name, title = SETTINGS[wanted]
    return reference(getattr(importlib.import_module(module), name), title, INTRO)


@app.command("reference", hidden=True)
def print_page(wanted: Annotated[Page, typer.Argument(metavar="PAGE", help="Which page.")]) -> None:
    """Print a page of docs/reference."""
    typer.echo(page(wanted), nl=False)
