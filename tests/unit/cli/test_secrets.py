"""Secrets reach commands by file, standard input or environment; no flag of a server takes one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyromq.auth.users.store import AccessStore
from pyromq.broker.config import BrokerConfig
from pyromq.cli import app
from pyromq.settings.declaration import options


def test_a_password_comes_from_a_file_or_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from-a-file-0123456789\n")
    folder = tmp_path / "auth"
    for name, source, text in (("alice", str(file), None), ("bob", "-", "from-standard-input-0123\n")):
        command = ["admin", "createUser", "-u", name, "--folder", str(folder), "--passwordFile", source]
        done = CliRunner().invoke(app, command, input=text)
        assert done.exit_code == 0, done.output
        assert "0123" not in done.output
    users = AccessStore(folder).access.users
    assert (users["alice"].secret, users["bob"].secret) == ("from-a-file-0123456789", "from-standard-input-0123")


@pytest.mark.parametrize("arguments", [["-p", "x"], []])
def test_a_password_file_without_a_password_or_beside_one_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "password"
    file.write_text("\n")
    command = ["admin", "createUser", "-u", "alice", "--folder", str(tmp_path / "auth"), "--passwordFile", str(file)]
    done = CliRunner().invoke(app, [*command, *arguments])
    assert done.exit_code == 2
    assert not (tmp_path / "auth" / "users.json").exists()


def test_no_flag_of_a_server_takes_a_secret() -> None:
    shown = CliRunner().invoke(app, ["broker", "--help"], terminal_width=200).output
    for option in options(BrokerConfig).values():
        if option.secret:
            assert option.flag not in shown
