"""`pyromq admin`: mqadmin's commands and flags, on top of `pyromq.Admin`. Presentation only; one module a subject."""

import importlib
from typing import Any

import typer

from pyromq.cli.admin.command import Entry
from pyromq.cli.lazy import LazyGroup
from pyromq.cli.servers.flags import fail

SUBJECTS = (
    "pyromq.cli.admin.topics",
    "pyromq.cli.admin.groups",
    "pyromq.cli.admin.offsets",
    "pyromq.cli.admin.messages",
    "pyromq.cli.admin.dump",
    "pyromq.cli.admin.probes",
    "pyromq.cli.admin.clients",
    "pyromq.cli.admin.brokers",
    "pyromq.cli.admin.nameservers",
    "pyromq.cli.admin.replication",
    "pyromq.cli.admin.exports",
    "pyromq.cli.admin.deadletters",
    "pyromq.cli.admin.users",
)

CONTAINER = "PyroMQ has no broker containers: run one process for each broker"
CONTROLLER = "PyroMQ has no controller: masters are chosen by configuration"
ROCKSDB = "PyroMQ keeps no RocksDB: its settings and queues are the plain files of Apache's broker"
STATIC = "PyroMQ has no static topics"

ABSENT = {
    "addBroker": CONTAINER,
    "removeBroker": CONTAINER,
    "getSyncStateSet": CONTROLLER,
    "getControllerMetaData": CONTROLLER,
    "getControllerConfig": CONTROLLER,
    "updateControllerConfig": CONTROLLER,
    "electMaster": CONTROLLER,
    "cleanBrokerMetadata": CONTROLLER,
    "exportMetadataInRocksDB": ROCKSDB,
    "rocksDBConfigToJson": ROCKSDB,
    "checkRocksdbCqWriteProgress": ROCKSDB,
    "exportPopRecord": ROCKSDB,
    "dumpCompactionLog": "PyroMQ has no compacted topics",
    "copyUser": "PyroMQ gives out no secrets: create the user on the other broker with the secret you know",
    "updateStaticTopic": STATIC,
    "remappingStaticTopic": STATIC,
}
"""Commands of mqadmin that do not apply to PyroMQ, each with the reason, so that nobody has to guess."""


def entries() -> dict[str, Entry]:
    """All commands by name, subject by subject."""
    return {entry.name: entry for module in SUBJECTS for entry in importlib.import_module(module).commands.entries}


class AdminCommands(LazyGroup):
    """The subjects as one group. Names may be written in any case, as mqadmin's."""

    def __init__(self, **attributes: Any) -> None:
        self.entries = entries()
        super().__init__({name: entry.listing for name, entry in self.entries.items()}, **attributes)

    def load(self, name: str) -> Any:
        return self.entries[name].build()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = {name.lower(): name for name in self.commands}
        return super().get_command(ctx, known.get(cmd_name.lower(), cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """`help NAME` is `NAME --help`, as in mqadmin; what does not apply says why."""
        if args and args[0] == "help" and not ctx.resilient_parsing:
            args = [*args[1:2], "--help"]
        if args and not ctx.resilient_parsing:
            reasons = {name.lower(): (name, reason) for name, reason in ABSENT.items()}
            if args[0].lower() in reasons:
                name, reason = reasons[args[0].lower()]
                fail(f"{name} does not apply: {reason}", code=2)
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=AdminCommands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback(context_settings={"help_option_names": ["-h", "--help"]})
def admin() -> None:
    """Look after a cluster: mqadmin's commands and flags, with tables, JSON and exit codes."""
