"""Commands made out of settings."""

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from pyromq.cli.servers.flags import settings_command
from pyromq.settings.declaration import settings
from pyromq.settings.option import Secret, option
from pyromq.settings.process import ProcessSettings


@settings
class Example(ProcessSettings):
    """Example"""

    name: str = option("x", "Name.", short="n")
    port: int = option(1, "Port.", key="listenPort", maximum=10)
    enabled: bool = option(True, "Switch.")
    password: Secret = option("", "Password.")


seen: list[tuple[Example, bool]] = []
app = typer.Typer()


@app.command()
@settings_command(Example)
def example(config: Example, fast: Annotated[bool, typer.Option("--fast")] = False) -> None:
    """Run the example."""
    seen.append((config, fast))


def invoke(*arguments: str) -> Result:
    seen.clear()
    return CliRunner().invoke(app, arguments)


def test_flags_become_settings() -> None:
    assert invoke("-n", "y", "--port", "7", "--no-enabled", "--fast").exit_code == 0
    ((config, fast),) = seen
    assert (config.name, config.port, config.enabled, fast) == ("y", 7, False, True)


def test_the_file_the_environment_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "example.conf"
    file.write_text("name=file\nlistenPort=2\nenabled=false\npassword=hunter2\n")
    monkeypatch.setenv("PYROMQ_PORT", "3")
    assert invoke("-c", str(file), "--enabled").exit_code == 0
    ((config, fast),) = seen
    assert (config.name, config.port, config.enabled, fast) == ("file", 3, True, False)
    assert config.password == "hunter2"  # noqa: S105 - an invented one
    printed = invoke("-c", str(file), "-p")
    assert printed.stdout == "name=file\nlistenPort=3\nenabled=false\npassword=******\n"
    assert seen == []


def test_a_refused_value_ends_the_command() -> None:
    result = invoke("--port", "11")
    assert result.exit_code == 2
    assert result.stderr == "pyromq: listenPort = '11' is not allowed; it must be a whole number, 10 or less\n"
    assert seen == []


def test_secrets_have_no_flag() -> None:
    assert invoke("--password", "hunter2").exit_code == 2
    assert "--password" not in invoke("--help").stdout


def test_the_help_is_the_documentation() -> None:
    text = invoke("--help").stdout
    for part in ("Run the example.", "--port", "Port.", "default 1", "--no-enabled", "--config", "--fast"):
        assert part in text
