"""Options that several admin commands take, under mqadmin's names."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypedDict, TypeVar

import typer

from pyromq.cli.completion import groups, topics
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.base import Body, decode_as
from pyromq.protocol.errors import BodyError

B = TypeVar("B", bound=Body)


class ArgumentsError(PyroMQError):
    """Options that do not fit together; exit code 2."""


class Where(TypedDict):
    """Which brokers are meant, as arguments of `Admin`."""

    broker: str | None
    cluster: str | None


class OnOff(StrEnum):
    """mqadmin's switches take a word."""

    TRUE = "true"
    FALSE = "false"

    def __bool__(self) -> bool:
        return self is OnOff.TRUE


Topic = Annotated[str, typer.Option("--topic", "-t", help="Topic.", show_default=False, autocompletion=topics)]
TopicName = Annotated[
    str, typer.Option("--topicName", "--topic", "-t", help="Topic.", show_default=False, autocompletion=topics)
]
Group = Annotated[
    str, typer.Option("--groupName", "--group", "-g", help="Consumer group.", show_default=False, autocompletion=groups)
]
ConsumerGroup = Annotated[
    str,
    typer.Option("--consumerGroup", "--group", "-g", help="Consumer group.", show_default=False, autocompletion=groups),
]
Broker = Annotated[
    str | None,
    typer.Option("--brokerAddr", "-b", metavar="host:port", help="One broker, by address or by name."),
]
Cluster = Annotated[str | None, typer.Option("--clusterName", "-c", help="All masters of a cluster.")]
ShortCluster = Annotated[str | None, typer.Option("--cluster", "-c", help="All masters of a cluster.")]
Interval = Annotated[
    int | None, typer.Option("--interval", "-i", min=1, metavar="seconds", help="Do it again and again.")
]
Begin = Annotated[
    str | None, typer.Option("--beginTimestamp", "-b", metavar="time", help="Only what was stored at or after this.")
]
End = Annotated[
    str | None, typer.Option("--endTimestamp", "-e", metavar="time", help="Only what was stored before this.")
]


def one_of(broker: str | None, cluster: str | None) -> Where:
    """A broker or a cluster. Raises ArgumentsError unless exactly one is given."""
    if (broker is None) == (cluster is None):
        raise ArgumentsError("give either a broker (-b) or a cluster (-c)")
    return {"broker": broker, "cluster": cluster}


def at_most_one(broker: str | None, cluster: str | None) -> Where:
    """The same where neither means all masters."""
    if broker is not None and cluster is not None:
        raise ArgumentsError("give a broker (-b) or a cluster (-c), not both")
    return {"broker": broker, "cluster": cluster}


def read_list(path: Path, shape: type[B]) -> list[B]:
    """The configurations that a JSON file lists. Raises ArgumentsError, OSError."""
    try:
        found: list[B] = decode_as(list[shape], path.read_bytes())  # type: ignore[valid-type]  # a type made here
    except BodyError as error:
        raise ArgumentsError(f"{path} cannot be read: {error}") from None
    if not found:
        raise ArgumentsError(f"{path} lists nothing")
    return found


def read_text(option: str, shape: type[B], text: str | None) -> B | None:
    """What an option says in JSON. Raises ArgumentsError."""
    try:
        return None if text is None else shape.decode(text)
    except BodyError as error:
        raise ArgumentsError(f"{option} cannot be read: {error}") from None
