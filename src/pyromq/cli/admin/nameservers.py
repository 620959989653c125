"""Admin commands about name servers."""

from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.output import Lines, Output, Parts, Record, Rows

commands = Subject("Name servers")

Namespace = Annotated[str, typer.Option("--namespace", "-s", help="Namespace of keys.")]
Key = Annotated[str, typer.Option("--key", "-k", help="Key.")]
Value = Annotated[str, typer.Option("--value", "-v", help="Value.")]
BrokerName = Annotated[str, typer.Option("--brokerName", "-b", help="Broker name.")]


@commands.command("updateKvConfig", "-s my-namespace -k answer -v 42")
def update_kv(session: Session, namespace: Namespace, key: Key, value: Value) -> Output:
    """Store a value on all name servers."""
    session.admin.put_kv(namespace, key, value)
    return Lines([f"{namespace}/{key} = {value}"], {"namespace": namespace, "key": key, "value": value})


@commands.command("deleteKvConfig", "-s my-namespace -k answer")
def delete_kv(session: Session, namespace: Namespace, key: Key) -> Output:
    """Delete a value on all name servers."""
    session.admin.delete_kv(namespace, key)
    return Lines([f"{namespace}/{key} deleted"], {"namespace": namespace, "key": key})


@commands.command("listKvConfig", "-s ORDER_TOPIC_CONFIG")
def list_kv(session: Session, namespace: Namespace) -> Output:
    """List the values of a namespace (not in mqadmin)."""
    return Record(session.admin.list_kv(namespace))


@commands.command("getNamesrvConfig")
def namesrv_config(session: Session) -> Output:
    """Show the settings of each name server."""
    found = session.admin.name_server_config()
    return Parts({address: Record(settings, title=f"name server {address}") for address, settings in found.items()})


@commands.command("updateNamesrvConfig", "-k orderMessageEnable -v true")
def update_namesrv_config(session: Session, key: Key, value: Value) -> Output:
    """Change a setting of all name servers while they run."""
    changed = session.admin.update_name_server_config({key: value})
    return Lines([f"{address}: {key} = {value}" for address in changed], {"key": key, "value": value, "on": changed})


@commands.command("wipeWritePerm", "-b broker-a")
def wipe_write_perm(session: Session, broker_name: BrokerName) -> Output:
    """Let producers send to a broker no more, for example before it is stopped."""
    changed = session.admin.wipe_write_permission(broker_name)
    return Rows(("Name Server", "Topics Changed"), list(changed.items()))


@commands.command("addWritePerm", "-b broker-a")
def add_write_perm(session: Session, broker_name: BrokerName) -> Output:
    """Let producers send to a broker again."""
    changed = session.admin.add_write_permission(broker_name)
    return Rows(("Name Server", "Topics Changed"), list(changed.items()))
