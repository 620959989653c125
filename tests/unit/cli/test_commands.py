"""The table of commands."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pyromq.cli import COMMANDS, app
from pyromq.cli.lazy import load_app

HEAVY = ("pyromq.broker", "pyromq.store", "pyromq.spark", "pyromq.client", "asyncio")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_of_itself_what_the_list_says(name: str) -> None:
    module, listing = COMMANDS[name]
    command = load_app(module)
    assert command.help.partition("\n\n")[0].replace("\n", " ") == listing.summary


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from pyromq.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"assert not set({HEAVY!r}) & set(sys.modules), sorted(set({HEAVY!r}) & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "standalone" in done.stdout


def test_a_wrong_name_is_one_message_and_exit_code_2() -> None:
    done = CliRunner().invoke(app, ["standalon"])
    assert done.exit_code == 2
    assert "Did you mean 'standalone'" in done.output


@pytest.mark.parametrize(("words", "found"), [("pyromq stand", "standalone"), ("pyromq admin topicS", "topicStatus")])
def test_shells_can_complete_names(words: str, found: str) -> None:
    environment = {"_PYROMQ_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(app, [], prog_name="pyromq", env=environment)
    assert found in done.output.split()
