"""The `pyromq` command: presentation only, on top of the clients and the servers.

Each command is one module with a Typer `app`; it is imported when the command is used, so that a small command does
not pay for a large one.
"""

import importlib
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "standalone": "pyromq.cli.standalone",
    "namesrv": "pyromq.cli.namesrv",
    "broker": "pyromq.cli.broker",
    "demo": "pyromq.cli.demo",
    "reference": "pyromq.cli.reference",
    "filtersrv": "pyromq.cli.filtersrv",
}
HIDDEN = frozenset({"filtersrv"})
"""Commands that other commands start."""


class Commands(TyperGroup):
    """The table above as a command group."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is Typer's
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the signature is Typer's
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(importlib.import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """RocketMQ in Python: servers, clients and tools."""


def main() -> None:
    """Entry point of the console script."""
    app()
