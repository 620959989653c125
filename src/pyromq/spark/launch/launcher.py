"""What stands in for Python where Spark starts one: it becomes Python, with Spark's modules from the installed package.

Spark puts `pyspark.zip`, the archive of py4j and a jar first on the path of its processes. Archives hold no bytecode:
each process compiles all of PySpark anew, which is most of the time that a stream takes to start. Where the archive
belongs to the very package that this Python has installed, both hold the same modules, and the path is left without it.

Runs as a script too, before anything else is read: it imports nothing of PyroMQ, and nothing that takes time.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, MutableMapping
    from typing import NoReturn

PYTHON = "PYROMQ_SPARK_PYTHON"
"""The interpreter to become."""
PACKAGES = "PYROMQ_SPARK_PACKAGES"
"""The folder from which that interpreter imports PySpark by itself."""
NURSERY = "PYROMQ_SPARK_NURSERY"
"""The socket of a process that forks what it has loaded already, see `nursery`; there need not be one."""
PATIENCE = 2.0
"""Seconds that it has to answer. Spark gives a process ten to start."""
PATH = "PYTHONPATH"


def installed_path(path: str, packages: Collection[str]) -> str:
    """A PYTHONPATH without the archives of a PySpark that is installed in one of these folders."""
    entries = path.split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if not any(_is_spare(entry, folder) for folder in packages))


def _is_spare(entry: str, folder: str) -> bool:
    inside = entry.removeprefix(f"{folder}/pyspark/")
    if inside == entry or not _has(folder, "pyspark"):
        return False
    if inside.startswith("python/lib/py4j-"):
        return _has(folder, "py4j")
    return inside == "python/lib/pyspark.zip" or inside.startswith("jars/")


def _has(folder: str, package: str) -> bool:
    return os.access(f"{folder}/{package}/__init__.py", os.R_OK)


def run(arguments: list[str], environ: MutableMapping[str, str], packages: Collection[str]) -> NoReturn:
    """Run Python with these arguments: by the nursery if there is one, else in the place of this process."""
    python = environ.get(PYTHON, sys.executable)
    if PATH in environ:
        environ[PATH] = installed_path(environ[PATH], packages)
    if NURSERY in environ and len(arguments) > 1 and arguments[0] == "-m":
        _stand_for_a_fork(environ[NURSERY], arguments, environ)
    os.execve(python, [python, *arguments], environ)  # noqa: S606 - no shell


def _stand_for_a_fork(path: str, arguments: list[str], environ: MutableMapping[str, str]) -> None:
    """Have the nursery fork the process, and end as that does. Returns when there is none to be had."""
    import socket  # noqa: PLC0415 - takes time

    here = os.getcwd()  # noqa: PTH109 - pathlib takes time
    texts = (here, str(len(arguments)), *arguments, *(f"{name}={value}" for name, value in environ.items()))
    data = os.fsencode("\0".join(texts))
    with socket.socket(socket.AF_UNIX) as nursery:
        try:
            nursery.settimeout(PATIENCE)
            nursery.connect(path)
            socket.send_fds(nursery, [len(data).to_bytes(4, "big")], [0, 1, 2])
            nursery.sendall(data)
            pid = int.from_bytes(nursery.recv(4), "big")
        except OSError:
            return
        if pid:
            nursery.settimeout(None)
            status = nursery.recv(4)
            if status:
                os._exit(int.from_bytes(status, "big"))
            os.kill(pid, 15)  # the nursery is gone, and this process is the only one that knows of the other
            os._exit(1)


def main() -> NoReturn:
    """The command `pyromq-spark-python`."""
    packages = [os.environ[PACKAGES]] if PACKAGES in os.environ else sys.path
    run(sys.argv[1:], os.environ, packages)


if __name__ == "__main__":
    main()
