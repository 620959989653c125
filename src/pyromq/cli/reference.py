"""`pyromq reference`: print the reference page of a server's settings, as it is in docs/reference."""

import importlib
from enum import StrEnum
from typing import Annotated

import typer

from pyromq.config import reference

app = typer.Typer(add_completion=False)

INTRO = """\
Each setting has a key for property files (`-c FILE`; Apache's files load as they are), a flag and an environment
variable. Flags beat the environment, which beats the file. An unknown key is an error that names the nearest one.
*Reloadable* settings can be changed while the server runs (`updateNamesrvConfig`, `updateBrokerConfig`) and hold until
it stops; paths, addresses and secrets can neither be changed nor read remotely."""


class Page(StrEnum):
    """Servers that have settings."""

    NAMESRV = "namesrv"
    BROKER = "broker"


PAGES = {
    Page.NAMESRV: ("pyromq.namesrv.config", "NamesrvConfig", "Settings of the name server"),
    Page.BROKER: ("pyromq.broker.config", "BrokerConfig", "Settings of the broker"),
}


def page(server: Page) -> str:
    """The Markdown text of one page."""
    module, name, title = PAGES[server]
    return reference(getattr(importlib.import_module(module), name), title, INTRO)


@app.command("reference", hidden=True)
def print_page(server: Annotated[Page, typer.Argument(help="Whose settings.")]) -> None:
    """Print a page of docs/reference."""
    typer.echo(page(server), nl=False)
