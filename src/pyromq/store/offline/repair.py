"""Repairing a store that no broker has open: first a plan that says what would be done and lost, then the work.

Nothing is deleted. What is replaced goes into `setaside` in the store's folder. What recovery does by itself at every
start is not repeated here: queues and index are only taken out of its way, and it makes them again from the log.
"""

import time
from pathlib import Path

import msgspec

from pyromq import disk, durable
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreFormatError, StoreLockedError
from pyromq.store.lock import StoreLock, is_open
from pyromq.store.log.mappedfiles import MappedFiles, file_name
from pyromq.store.messagestore import MessageStore
from pyromq.store.offline.check import Progress, Report, check_store
from pyromq.store.offline.layout import found_config
from pyromq.store.save.manifest import Manifest

SET_ASIDE = "setaside"


class Step(msgspec.Struct, kw_only=True):
    """One thing to do."""

    what: str
    why: str
    loses: str = ""
    """What is lost by it; empty when nothing is."""


class Plan(msgspec.Struct, kw_only=True):
    """What a repair would do to a store; `report` is what the check found, None while the log has gaps."""

    root: str
    files: list[Step] = []
    queues: Step | None = None
    index: Step | None = None
    cut: Step | None = None
    report: Report | None = None

    @property
    def steps(self) -> list[Step]:
        found = [self.queues, self.index, self.cut]
        return [*self.files, *(each for each in found if each is not None)]


def plan_repair(config: StoreConfig, progress: Progress = lambda _what, _done, _total: None) -> Plan:
    """See what there is to do, and change nothing. Raises StoreFormatError, StoreLockedError or OSError."""
    config = found_config(config)
    _check_closed(config)
    root = str(config.store_path_root_dir)
    plan = Plan(root=root, files=[step for step, _ in _gaps(config)])
    if plan.files:
        return plan
    report = plan.report = check_store(config, progress)
    if report.counts.get("queue"):
        plan.queues = Step(
            what=f"make all consume queues again from the log; the old ones go to {SET_ASIDE}",
            why=f"{report.counts['queue']} entries are wrong or missing",
        )
    if report.counts.get("index"):
        plan.index = Step(
            what=f"make the index again from the log; the old one goes to {SET_ASIDE}",
            why=f"{report.counts['index']} faults in it",
        )
    if report.lost_end:
        last = [each for each in report.damaged if each.begin >= report.log_end - report.lost_end]
        plan.cut = Step(
            what=f"end the log at {report.log_end - report.lost_end}; a copy of the rest goes to {SET_ASIDE}",
            why="nothing behind that place can be read",
            loses=f"{report.lost_end} bytes: {', '.join(each.place for each in last[:10])}",
        )
    return plan


def repair(config: StoreConfig, plan: Plan, *, accept_loss: bool) -> list[Step]:
    """Do what a plan says, except for steps that lose something unless `accept_loss`; returns what was done.

    Raises StoreFormatError, StoreLockedError, OSError.
    """
    config = found_config(config)
    _check_closed(config)
    root = config.store_path_root_dir
    aside = _new_folder(root / SET_ASIDE)
    done: list[Step] = []
    lock = StoreLock(config.lock_path)
    lock.acquire()
    try:
        for step, (path, size) in _gaps(config):
            _stretch(path, size)
            done.append(step)
        if plan.cut is not None and accept_loss and plan.report is not None:
            _cut(config, plan.report.log_end - plan.report.lost_end, plan.report.log_end, aside)
            done.append(plan.cut)
        for rebuilt, folder in ((plan.queues, config.consume_queue_dir), (plan.index, config.index_dir)):
            if rebuilt is not None:
                _move(folder, aside)
                done.append(rebuilt)
    finally:
        lock.release()
    if done:
        with MessageStore(config):
            pass  # recovery does the rest
    return done


def _new_folder(parent: Path) -> Path:
    """A name below a folder that nothing has yet."""
    base = time.strftime("%Y%m%d-%H%M%S")
    names = (base, *(f"{base}-{number}" for number in range(2, 1000)))
    return next(parent / name for name in names if not (parent / name).exists())


def _check_closed(config: StoreConfig) -> None:
    if is_open(config.lock_path):
        raise StoreLockedError(f"{config.store_path_root_dir} is open in a process: stop the broker first")


def _gaps(config: StoreConfig) -> list[tuple[Step, tuple[Path, int]]]:
    """Files of the log that are cut or missing, and what they must be: zeros in place of what is lost are damage, which
    recovery steps over."""
    size = config.mapped_file_size_commit_log
    found: dict[int, int] = {}
    for entry in disk.entries(config.commit_log_dir):
        path = Path(entry.path)
        if entry.is_dir():
            continue
        if not (path.name.isascii() and path.name.isdigit()) or int(path.name) % size:
            raise StoreFormatError(f"{path} is not a file of this store: move it away")
        found[int(path.name)] = path.stat().st_size
    gaps = []
    for start in range(min(found, default=0), max(found, default=-1) + 1, size):
        path, length = config.commit_log_dir / file_name(start), found.get(start)
        if length is None:
            step = Step(what=f"put an empty file in the place of {path.name}", why="the file is missing")
            gaps.append((step, (path, size)))
        elif length != size and (length or start != max(found)):
            why = f"it has {length} of {size} bytes"
            if length > size:
                raise StoreFormatError(f"{path} has {length} bytes, but most files here have {size}: move it away")
            gaps.append((Step(what=f"stretch {path.name} with zeros", why=why), (path, size)))
    return gaps


def _stretch(path: Path, size: int) -> None:
    fd = disk.open_file(path, writable=True, create=True)
    try:
        disk.set_length(fd, size)
        disk.sync(fd)
    finally:
        disk.close(fd)
    durable.sync_folder(path.parent)


def _cut(config: StoreConfig, begin: int, end: int, aside: Path) -> None:
    files = MappedFiles(config.commit_log_dir, config.mapped_file_size_commit_log)
    files.load()
    try:
        for file in files:
            first, last = max(begin, file.start), min(end, file.end)
            if first < last:
                durable.write_file(
                    aside / "commitlog" / file_name(first), file.read(first - file.start, last - file.start)
                )
        manifest = Manifest.read(config.store_path_root_dir) or Manifest(begin, {})
        manifest.offset, manifest.kept = min(manifest.offset, begin), 0
        manifest.damaged = [each for each in manifest.damaged if each.begin < begin]
        manifest.write(config.store_path_root_dir)
        files.truncate(begin)
        files.sync()
    finally:
        files.close()


def _move(folder: Path, aside: Path) -> None:
    if folder.exists():
        durable.make_folder(aside)
        disk.rename(folder, aside / folder.name)
        durable.sync_folder(folder.parent)
        durable.sync_folder(aside)
