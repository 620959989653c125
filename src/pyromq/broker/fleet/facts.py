"""What a broker says of itself once it accepts messages: its command prints it, a supervisor reads it."""

import msgspec


class Facts(msgspec.Struct, frozen=True):
    """`broker` is what clients are told, `listen` what is bound; `unregistered` has the reasons."""

    broker: str
    listen: str
    http: str | None = None
    grpc: str | None = None
    registered: list[str] = []
    unregistered: dict[str, str] = {}
    pid: int = 0
