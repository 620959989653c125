"""The `pyromq` command: presentation only, on top of the clients and the servers."""

import typer

app = typer.Typer(no_args_is_help=True, help="RocketMQ in Python.")


@app.callback()
def root() -> None:
    """RocketMQ in Python: servers, clients and tools."""


def main() -> None:
    """Entry point of the console script."""
    app()
