"""A cluster for tests of the command line, and commands run against it in this process."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from pyromq.broker.standalone import Standalone
from pyromq.cli import app
from tests.integration.client.clusters import standalone_beside

CLUSTER = "DefaultCluster"
BROKER = "broker-a"


class Commands:
    """`pyromq` against one cluster."""

    def __init__(self, server: Standalone) -> None:
        self.server = server
        self.namesrv = server.namesrv_address
        self.broker = server.broker_address

    def invoke(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Run a command as the console script would, with NAMESRV_ADDR set."""
        return CliRunner().invoke(app, arguments, prog_name="pyromq", input=stdin, env={"NAMESRV_ADDR": self.namesrv})

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """What a command prints; it must end well."""
        done = self.invoke(*arguments, stdin=stdin)
        assert done.exit_code == 0, f"{arguments}: {done.output} {done.exception!r}"
        return done.stdout

    def admin(self, line: str) -> Any:
        """The JSON of an admin command, given as one line."""
        return json.loads(self("admin", *line.split(), "--json"))

    def refused(self, *arguments: str, code: int = 1) -> str:
        """The one line that says why a command did not do it."""
        done = self.invoke(*arguments)
        assert done.exit_code == code, done.output
        assert done.stdout == ""
        (text,) = done.stderr.splitlines()
        return text.removeprefix("pyromq: ")


@contextmanager
def commands(path: Path, **settings: str) -> Iterator[Commands]:
    """Commands against a running cluster."""
    with standalone_beside(path, **settings) as server:
        yield Commands(server)
