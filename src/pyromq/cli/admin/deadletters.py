"""Admin commands about dead letters. mqadmin has none: there they are read and sent by hand."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import Begin, End, Group
from pyromq.cli.output import Lines, Moment, Output, Record, Rows
from pyromq.cli.times import since, until
from pyromq.client.errors import NoRouteError

commands = Subject("Dead letters (not in mqadmin)")

Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="At most so many.")]


class To(StrEnum):
    """Where dead letters go."""

    GROUP = "group"
    TOPIC = "topic"


@commands.command("listDeadLetters", "-g billing")
def list_dead_letters(
    session: Session, group: Group, begin: Begin = None, end: End = None, limit: Limit = 1000
) -> Output:
    """List messages that a group failed on for good."""
    try:
        letters = session.admin.dead_letters(group, begin_ms=since(begin), end_ms=until(end), limit=limit)
    except NoRouteError:  # it never failed for good
        letters = []
    rows = [
        (
            letter.message_id,
            letter.origin_topic,
            letter.message.tags or "",
            " ".join(letter.message.keys),
            Moment(letter.message.store_timestamp),
        )
        for letter in letters
    ]
    return Rows(("Message ID", "Origin Topic", "Tags", "Keys", "Store Time"), rows)


@commands.command("exportDeadLetters", "-g billing -f letters.jsonl")
def export_dead_letters(
    session: Session,
    group: Group,
    path: Annotated[Path, typer.Option("--filePath", "-f", help="File to write, one JSON object a line.")],
    begin: Begin = None,
    end: End = None,
    limit: Limit = 1000,
) -> Output:
    """Write dead letters to a file."""
    count = session.admin.export_dead_letters(group, path, begin_ms=since(begin), end_ms=until(end), limit=limit)
    return Lines([f"{count} dead letters written to {path}"], {"count": count, "path": str(path)})


@commands.command("redriveDeadLetters", "-g billing --to group")
def redrive(
    session: Session,
    group: Group,
    to: Annotated[To, typer.Option("--to", help="The group alone, or everybody who reads the topic.")] = To.GROUP,
    restart: Annotated[bool, typer.Option("--restart", help="Those too that an earlier run has sent.")] = False,
    limit: Limit = 1000,
) -> Output:
    """Send dead letters again; a second run continues after the first."""
    done = session.admin.redrive(group, to=to.value, restart=restart, limit=limit)
    return Record({"sent": len(done.sent), "left": done.left})
