"""Command groups whose commands are imported when they are used.

Listing them costs nothing: names and summaries stand in a table. What stands there must be what the command says about
itself; a test compares the two.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Listing(NamedTuple):
    """A command as the list of its group shows it."""

    summary: str
    panel: str | None = None
    hidden: bool = False


class LazyGroup(TyperGroup, ABC):
    """A group that knows its commands by their listings; `load` makes the real one."""

    def __init__(self, listings: Mapping[str, Listing], **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, listing in listings.items():
            self.commands[name] = TyperCommand(
                name, help=listing.summary, rich_help_panel=listing.panel, hidden=listing.hidden
            )

    @abstractmethod
    def load(self, name: str) -> Any:
        """The command itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What runs, and what completion looks at, is the real command."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is None or command.name is None:
            return name, command, rest
        real = self.load(command.name)
        real.name = command.name
        return command.name, real, rest


def load_app(module: str) -> Any:
    """The command of a module's Typer `app`; completion is the business of the whole."""
    command = typer.main.get_command(importlib.import_module(module).app)
    command.params = [each for each in command.params if each.name not in ("install_completion", "show_completion")]
    return command
