"""How the tools find their cluster: flags, RocketMQ's environment variables, the credentials of mqadmin."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.client.errors import ClientError

DEFAULT = "127.0.0.1:9876"
"""Where `pyromq standalone` listens."""

NameServers = Annotated[
    str | None,
    typer.Option(
        "--namesrvAddr",
        "--namesrv",
        "-n",
        metavar="host:port;…",
        help=f"Name servers; else NAMESRV_ADDR, else {DEFAULT}.",
        show_default=False,
    ),
]


def client_options(namesrv: str | None, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Options for `Admin`, producers and consumers. Raises ClientError for a credentials file that cannot be read.

    Credentials come from `$ROCKETMQ_HOME/conf/tools.yml` as mqadmin's do, or from the file that
    ROCKETMQ_CLIENT_KEYFILE names, which the client itself reads.
    """
    environ = os.environ if environ is None else environ
    options: dict[str, Any] = {}
    if namesrv:
        options["namesrv"] = namesrv
    elif not any(environ.get(name) for name in ("NAMESRV_ADDR", "ROCKETMQ_NAMESRV_ADDR", "ROCKETMQ_NAMESRV_DOMAIN")):
        options["namesrv"] = DEFAULT
    home = environ.get("ROCKETMQ_HOME")
    if home and not environ.get("ROCKETMQ_CLIENT_KEYFILE"):
        options |= _tools_credentials(Path(home) / "conf" / "tools.yml")
    return options


def _tools_credentials(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    import yaml  # noqa: PLC0415 - wanted only where there is such a file

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # What the parser complains about quotes the line, which may hold the secret.
        raise ClientError(f"credentials file {path} cannot be read: {type(error).__name__}") from None
    if not isinstance(found, dict):
        return {}
    names = {"accessKey": "access_key", "secretKey": "secret_key"}
    return {option: str(found[name]) for name, option in names.items() if found.get(name)}
