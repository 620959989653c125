"""No secret shows in an error or a representation of the client."""

from pathlib import Path

import pytest

from pyromq.cli.connection import client_options
from pyromq.client.config import ClientConfig
from pyromq.client.environment import environment_options
from pyromq.client.errors import ClientError
from pyromq.remoting.hooks import Signing
from pyromq.settings.declaration import options

SECRET = "do-not-show-me"  # noqa: S105 - of a test


def test_settings_do_not_show_it() -> None:
    config = ClientConfig(access_key="alice", secret_key=SECRET, security_token=SECRET)
    assert SECRET not in repr(config)
    assert SECRET not in repr(Signing("alice", SECRET, SECRET))


def test_errors_about_the_environment_do_not_show_it() -> None:
    text = f'{{"0.0.0.0/0": {{"addr": 5, "password": "{SECRET}"}}}}'
    with pytest.raises(ClientError) as caught:
        environment_options(options(ClientConfig), {"COM_ROCKETMQ_SOCKS_PROXY_CONFIG": text})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", [f"secretKey: [{SECRET}", f"\tsecretKey: {SECRET}", f"secretKey: *{SECRET}"])
def test_errors_about_credentials_files_do_not_show_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(text)
    with pytest.raises(ClientError) as caught:
        client_options("127.0.0.1:9876", {"ROCKETMQ_HOME": str(tmp_path)})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
