CONTRACT: int

class Panic(BaseException): ...

def panic(reason: str) -> None: ...
def take_plain(
    data: bytes, offset: int, delta: int, make: type[object], host: object, messages: list[object], /
) -> int: ...
def place_batch(
    raw: object,
    at: int,
    limit: int,
    body: object,
    topic: bytes,
    queue_id: int,
    number: int,
    place: int,
    shared: bytes,
    timestamp: int,
    /,
) -> tuple[int, bytes, bytes] | int | None: ...
def message_ids(host: str, entries: bytes, /) -> str: ...
def link_keys(keys: object, slots: object, count: int, begin: int, /) -> tuple[bytes, int]: ...
