"""The table of commands."""

import importlib

import pytest
import typer

from pyromq.cli import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_says_what_it_does(name: str) -> None:
    command = typer.main.get_command(importlib.import_module(COMMANDS[name]).app)
    assert command.help
