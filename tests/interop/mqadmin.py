"""The official mqadmin in one process: a command in, what it printed out."""

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop.artifacts import SERVER_VERSION, java_driver
from tests.interop.servers import java


class MqAdmin:
    """Runs commands; each sees the name server it was made for.

    with MqAdmin("127.0.0.1:9876", tmp_path) as run:
        print(run("topicList"))
    """

    def __init__(self, namesrv: str, home: Path, credentials: tuple[str, str] | None = None) -> None:
        options = [f"-Drocketmq.namesrv.addr={namesrv}", f"-Drocketmq.home.dir={home}"]
        if credentials is not None:
            (home / "conf").mkdir(exist_ok=True)
            (home / "conf" / "tools.yml").write_text("accessKey: {}\nsecretKey: {}\n".format(*credentials))
        command = java(java_driver(SERVER_VERSION), "pyromq.AdminRunner", home=home, jvm=options)
        self._process = subprocess.Popen(
            command,
            cwd=home,  # consumerStatus writes files where it runs
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, *arguments: str) -> str:
        """What the command prints, on both of its outputs."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(arguments) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"mqadmin ended during {arguments}"
        return base64.b64decode(answer).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
