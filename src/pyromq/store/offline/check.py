"""Looking at a whole store and changing nothing: every record of the log, queues and index against it.

Works on the folder of a broker that runs, on one that was stopped and on a backup. What a broker that runs, or was
killed, had not written yet is no damage: the end of queues and index may lag behind the log then.
"""

import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from pyromq.store.config import StoreConfig
from pyromq.store.lock import is_open
from pyromq.store.log.damage import Damage, Stretch
from pyromq.store.log.mappedfiles import MappedFiles
from pyromq.store.log.resync import is_sound
from pyromq.store.log.span import Span
from pyromq.store.log.walk import Walker
from pyromq.store.offline.index import check_index
from pyromq.store.offline.layout import found_config
from pyromq.store.offline.queue import QueueCheck
from pyromq.store.recovery import check_layout
from pyromq.store.save.manifest import FILE_NAME, Manifest

log = logging.getLogger(__name__)

MAX_LISTED = 1000
"""Findings that are listed one by one; beyond them they are counted."""
_EVERY = 1 << 12  # records between two reports of progress

Progress = Callable[[str, int, int], None]
"""Told what is looked at, how much of it is done, and how much there is."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it should be, and where."""

    kind: str
    """log, queue, index, state, or settings, which must be named to look further."""
    place: str
    fault: str


class Report(msgspec.Struct, kw_only=True):
    """What a check found."""

    root: str
    state: str
    """running, stopped, or killed."""
    log_begin: int = 0
    log_end: int = 0
    records: int = 0
    queues: int = 0
    entries: int = 0
    pending: int = 0
    """Records that are not in their queue on disk yet, which is no damage."""
    index_files: int = 0
    keys: int = 0
    lost_end: int = 0
    """Bytes behind the last record that cannot be read although they were on disk."""
    findings: list[Finding] = []
    counts: dict[str, int] = {}
    damaged: list[Stretch] = []

    @property
    def sound(self) -> bool:
        return not self.counts


class Findings:
    """Collects findings, bounded."""

    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, place: str, fault: str) -> None:
        self.counts[kind] += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(Finding(kind, place, fault))


def check_store(config: StoreConfig, progress: Progress = lambda _what, _done, _total: None) -> Report:
    """Look at everything. Raises StoreFormatError when there is no store, OSError when it cannot be read."""
    config = found_config(config)
    check_layout(config)
    running = is_open(config.lock_path)
    killed = not running and config.abort_path.exists()
    manifest = Manifest.read(config.store_path_root_dir)
    found = Findings()
    if manifest is None and (config.store_path_root_dir / FILE_NAME).exists():
        found.add("state", FILE_NAME, "cannot be read; recovery goes by the checkpoint then")
    files = MappedFiles(config.commit_log_dir, config.mapped_file_size_commit_log)
    files.load(writable=False)
    report = Report(
        root=str(config.store_path_root_dir), state="running" if running else "killed" if killed else "stopped"
    )
    try:
        queues = QueueCheck(config, files, manifest, found, final=not (running or killed))
        try:
            keys = _check_log(files, manifest, queues, found, report, progress, running=running)
            damage = Damage(files.directory, tell=False)
            damage.restore(report.damaged)
            queues.check_entries(damage, progress)
        finally:
            queues.close()
        report.queues, report.entries, report.pending = queues.count, queues.entries, queues.pending
        if config.message_index_enable:
            report.index_files, report.keys = check_index(
                config, files, damage, found, progress, keys=keys if not (running or killed) else 0
            )
    finally:
        files.close()
    report.findings, report.counts = found.listed, dict(found.counts)
    return report


def _check_log(
    files: MappedFiles,
    manifest: Manifest | None,
    queues: QueueCheck,
    found: Findings,
    report: Report,
    progress: Progress,
    *,
    running: bool,
) -> int:
    """Walk the log and hold each record against its queue entry; returns how many keys the index should have."""
    begin, size = max(files.min_offset, 0), files.max_offset
    known = max(manifest.offset, manifest.kept) if manifest is not None else 0
    damage = Damage(files.directory, tell=False)
    walker = Walker(files, begin, verify_crc=True, damage=damage, known_end=known if begin <= known <= size else 0)
    total = (known or size) - begin
    keys = 0
    sound_end = begin
    for each in walker.spans():
        if isinstance(each, Span) and (count := queues.see_span(each)) is not None:
            report.records += each.count
            keys += count
            sound_end = each.end
            progress("log", sound_end - begin, total)
            continue
        for record in walker.one_by_one(each) if isinstance(each, Span) else (each,):
            report.records += 1
            keys += queues.see(record)
            if not record.damaged:
                sound_end = record.offset + record.size
            if not report.records & _EVERY - 1:
                progress("log", record.offset - begin, total)
    progress("log", total, total)
    report.log_begin, report.log_end = begin, walker.position
    for stretch in damage.stretches:
        file = files.find(stretch.begin)
        if (
            running
            and file is not None
            and is_sound(file, file.view(0, file.size), stretch.begin - file.start, file.size)
        ):
            continue  # was being written when it was looked at
        report.damaged.append(stretch)
        found.add("log", f"{stretch.begin} to {stretch.end}", f"{stretch.place}: {stretch.reason}")
    if report.damaged and report.damaged[-1].begin >= sound_end:
        report.lost_end = walker.position - sound_end
    return keys
