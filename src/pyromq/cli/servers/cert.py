"""`pyromq cert`: certificates for development, and the settings that use them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.servers.flags import fail
from pyromq.errors import PyroMQError

app = typer.Typer()


@app.command("cert")
def cert(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")],
    host: Annotated[
        list[str] | None, typer.Option("--host", help="Name or address of the servers; may be given several times.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=825, help="How long they are valid.")] = 90,
) -> None:
    """Make certificates for development: an authority, and what it signs for servers and clients."""
    from pyromq.auth import certificates as devcertificates  # noqa: PLC0415 - --help needs no cryptography

    hosts = host or ["localhost", "127.0.0.1", "::1"]
    try:
        made = devcertificates.make(folder, hosts, days=days, now=datetime.now(UTC))
    except (PyroMQError, OSError) as error:
        fail(str(error))
    typer.echo(
        f"""# servers (broker.conf, namesrv.conf)
tls.server.mode=enforcing
tls.server.certPath={made.server.certificate}
tls.server.keyPath={made.server.key}
# servers, when they connect to each other
tls.enable=true
tls.client.trustCertPath={made.authority}
# Python clients: tls=ClientTls(ca="{made.authority}")
# for mutual TLS, servers also: tls.server.need.client.auth=require, tls.server.trustCertPath={made.authority},
# tls.client.certPath={made.client.certificate}, tls.client.keyPath={made.client.key}
# and Python clients: ClientTls(ca=..., certificate="{made.client.certificate}", key="{made.client.key}")"""
    )
