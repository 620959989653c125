"""Where the tools find their cluster and their credentials."""

from pathlib import Path

import pytest

from pyromq.cli.connection import DEFAULT, client_options
from pyromq.client.errors import ClientError


def test_flags_beat_the_environment_which_beats_the_default() -> None:
    assert client_options("a:1", {"NAMESRV_ADDR": "b:2"}) == {"namesrv": "a:1"}
    assert client_options(None, {"NAMESRV_ADDR": "b:2"}) == {}  # the client reads it
    assert client_options(None, {}) == {"namesrv": DEFAULT}


def test_credentials_of_mqadmin(tmp_path: Path) -> None:
    home = {"NAMESRV_ADDR": "a:1", "ROCKETMQ_HOME": str(tmp_path)}
    assert client_options(None, home) == {}
    (tmp_path / "conf").mkdir()
    tools = tmp_path / "conf" / "tools.yml"
    tools.write_text("accessKey: rocketmq\nsecretKey: 12345678\n")
    assert client_options(None, home) == {"access_key": "rocketmq", "secret_key": "12345678"}
    tools.write_text("- a list\n")
    assert client_options(None, home) == {}
    tools.write_text("{")
    with pytest.raises(ClientError, match=r"tools\.yml cannot be read"):
        client_options(None, home)
    assert client_options(None, {**home, "ROCKETMQ_CLIENT_KEYFILE": "other"}) == {}
