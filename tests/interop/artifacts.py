"""Published artifacts, fetched and built once into a folder that git ignores."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".interop"

CLIENT_VERSIONS = ("4.9.8", "5.3.3")
"""Releases of the Java client that are tried."""
SERVER_VERSION = "5.3.3"
"""The release of Apache's servers and tools that is run; the 4.9 line is not on Maven Central as servers."""

BUILD_TIMEOUT = 900


def java_driver(version: str) -> str:
    """Class path of the driver, compiled against this release of the client."""
    target = CACHE / f"java-client-{version}"
    listing = target / "classpath.txt"
    with _once(target) as build:
        if build:
            source = target / "source"
            shutil.copytree(HERE / "java", source, ignore=shutil.ignore_patterns("target"))
            _maven(
                source,
                version,
                "compile",
                "dependency:build-classpath",
                f"-Dmdep.outputFile={listing}",
            )
    return f"{target / 'source' / 'target' / 'classes'}{os.pathsep}{listing.read_text()}"


def apache_servers(version: str = SERVER_VERSION) -> str:
    """Class path of Apache's name server, broker and tools."""
    target = CACHE / f"apache-{version}"
    with _once(target) as build:
        if build:
            shutil.copytree(HERE / "apache", target / "source")
            _maven(target / "source", version, "dependency:copy-dependencies", f"-DoutputDirectory={target / 'lib'}")
    return f"{target / 'lib'}/*"


def _maven(folder: Path, version: str, *goals: str) -> None:
    command = ["mvn", "-q", "-B", f"-Drocketmq.version={version}", *goals]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed in {folder}:\n{(done.stdout + done.stderr)[-4000:]}")


@contextmanager
def _once(target: Path) -> Iterator[bool]:
    """Whether the folder has to be filled; it counts as filled only after that went well."""
    CACHE.mkdir(exist_ok=True)
    done = target / ".complete"
    with (CACHE / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            yield False
            return
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        yield True
        done.touch()
