"""Names that a shell can complete: asked of the cluster, quickly or not at all."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from pyromq.cli.connection import client_options
from pyromq.errors import PyroMQError

if TYPE_CHECKING:
    from pyromq.client.blocking.admin import Admin

PATIENCE = 1.0


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin so."""
    return _asked(ctx, incomplete, lambda admin: admin.topics())


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups that begin so."""
    return _asked(ctx, incomplete, lambda admin: admin.groups())


def _asked(ctx: typer.Context, incomplete: str, ask: "Callable[[Admin], list[str]]") -> list[str]:
    from pyromq.client.blocking.admin import Admin  # noqa: PLC0415 - only when somebody presses the key

    try:
        with Admin(timeout=PATIENCE, connect_timeout=PATIENCE, **client_options(ctx.params.get("namesrv"))) as admin:
            return [name for name in ask(admin) if name.startswith(incomplete)]
    except (PyroMQError, OSError):
        return []
