"""Index files against the log: each entry must lead to a record that has a key of that hash."""

from typing import TYPE_CHECKING

from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.record import peek_record
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreFormatError
from pyromq.store.index.file import ENTRY, HEADER, Layout
from pyromq.store.index.keyhash import KeyHasher
from pyromq.store.log.damage import Damage
from pyromq.store.log.mappedfiles import MappedFiles
from pyromq.store.log.resync import whereabouts

if TYPE_CHECKING:
    from pyromq.store.offline.check import Findings, Progress

_EVERY = 1 << 12


def check_index(
    config: StoreConfig,
    files: MappedFiles,
    damage: Damage,
    found: "Findings",
    progress: "Progress",
    *,
    keys: int,
) -> tuple[int, int]:
    """Look at all index files; `keys` is how many there must be at least, 0 if that is not known.

    Entries that lead to `damage` are no fault of the index. Returns how many files and entries there are.
    """
    layout = Layout(config.max_hash_slot_num, config.max_index_num)
    paths = sorted(path for path in config.index_dir.glob("*") if path.is_file() and path.name.isdigit())
    hasher = KeyHasher()
    entries = skipped = 0
    for number, path in enumerate(paths):
        progress("index", number, len(paths))
        name = f"index/{path.name}"
        if path.stat().st_size != layout.size:
            skipped += 1
            found.add(
                "settings",
                name,
                f"has {path.stat().st_size} bytes and not {layout.size}: it is cut, or was written with another "
                f"maxIndexNum; name the broker's settings with --config",
            )
            continue
        with path.open("rb") as file:
            *_, count = HEADER.unpack(file.read(HEADER.size))
            if not 1 <= count <= layout.entries:
                found.add("index", name, f"says that it has {count - 1} keys")
                continue
            file.seek(layout.at(1))
            data = file.read((count - 1) * ENTRY.size)
        for at, (key_hash, offset, _, previous) in enumerate(ENTRY.iter_unpack(data), 1):
            if not at & _EVERY - 1:
                progress("index", number, len(paths))
            entries += 1
            fault = _fault(files, hasher, key_hash, offset)
            if not fault and not 0 <= previous < at:
                fault = f"leads back to entry {previous}"
            if fault and offset not in damage:
                found.add("index", name, f"entry {at} {fault}")
    progress("index", len(paths), len(paths))
    if entries < keys and not skipped:
        found.add("index", "index", f"lacks {keys - entries} of {keys} keys")
    return len(paths), entries


def _fault(files: MappedFiles, hasher: KeyHasher, key_hash: int, offset: int) -> str | None:
    """What is wrong with an entry; None also for one whose record left the log, or is damaged and found as such."""
    if offset < files.min_offset:
        return None
    file = files.find(offset)
    if file is None:
        return f"leads to {offset}, behind the log"
    try:
        data, begin, _ = whereabouts(file, file.view(0, file.size), offset - file.start, file.size)
        record = peek_record(data, begin)
    except (MessageError, StoreFormatError):
        return f"leads to {offset}, where no record begins"
    if record.physical_offset != offset:
        return f"leads to {offset}, where no record begins"
    properties = decode_properties(record.properties)
    words = [properties.get(Property.UNIQ_KEY, ""), *properties.get(Property.KEYS, "").split(" ")]
    if any(hasher.key(record.topic, word) == key_hash for word in words if word):
        return None
    return f"leads to {offset}, a message without such a key"
