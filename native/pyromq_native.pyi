from collections.abc import Sequence
from typing import Any

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

class ArrowColumns:
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def arrow_columns(
    buffer: bytes | memoryview, starts: Any, owners: Any, segments: Sequence[tuple[Any, ...]], spec: Any
) -> tuple[ArrowColumns, bytes, bytes] | None: ...
def plain_starts(buffer: bytes | memoryview, start: int) -> bytes | None: ...
def are_sound(
    log: object, start: int, entries: object, index: int, first: int, picked: object, verify_crc: bool, /
) -> bool: ...
def gather(head: bytes, log: object, start: int, runs: list[tuple[int, int]], /) -> bytes | None: ...
def pull_head(
    binary: bool, code: int, opaque: int, version: int, remark: str, numbers: tuple[int, int, int, int], size: int, /
) -> bytes: ...
def scan_entries(
    entries: object,
    index: int,
    available: int,
    max_count: int,
    near: tuple[int, int],
    far: tuple[int, int],
    log: tuple[int, int, int, int],
    codes: bytes | None,
    /,
) -> tuple[int, bool, bool, int, int, int, int, list[tuple[int, int]], list[int]]: ...
