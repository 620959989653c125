"""The official gRPC clients that registries have, and how each is tried with servers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.artifacts import (
    GRPC_GO_VERSION,
    GRPC_JAVA_VERSION,
    GRPC_NODE_VERSION,
    GRPC_PYTHON_VERSION,
    GRPC_RUST_VERSION,
    grpc_go_driver,
    grpc_java_driver,
    grpc_node_driver,
    grpc_python_driver,
    grpc_rust_driver,
)
from tests.interop.drivers import Outcome
from tests.interop.grpcdrivers import GrpcDriver
from tests.interop.grpcservers import Gateway, Mode, encrypted
from tests.interop.scenarios.grpc import BY_CREDENTIALS, BY_NAME, play
from tests.interop.scenarios.grpc.operations import flow
from tests.interop.secured import certificates
from tests.interop.servers import java


@dataclass(frozen=True)
class GrpcClient:
    """A library with its driver."""

    name: str
    """As columns of the matrix say it."""
    command: Callable[[Path], list[str]]
    """What starts the driver, but for its arguments; it may leave files in the folder."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Scenarios that it has not what it takes for, and what that is."""
    tool: str = ""
    """The program that its driver is built with, if not every machine of these tests has it."""
    encrypts: bool = True
    """Whether it speaks TLS unless told otherwise."""
    trust: str | None = None
    """The variable that names the file of authorities it trusts; without one, it trusts everybody."""

    def driver(self, gateway: Gateway, home: Path, *, tls: bool, **environ: str) -> GrpcDriver:
        """A running driver."""
        home.mkdir(parents=True, exist_ok=True)
        command = [*self.command(home), gateway.endpoint, "tls" if tls else "plain"]
        return GrpcDriver(command, home, HOME=str(home), **environ)

    def tried(self, mode: Mode, folder: Path) -> dict[str, Outcome]:
        """How all scenarios went that it can do."""
        with mode.open(folder / "open") as gateway:
            outcomes = self._wires(gateway, folder)
            with self.driver(gateway, folder / "driver", tls=self.encrypts and self.trust is None) as driver:
                wanted = [name for name in BY_NAME if name not in self.cannot]
                if gateway.embedded:
                    wanted.remove("restartProxy")
                outcomes |= play(gateway, driver, wanted)
        with (
            mode.secured(folder / "secured") as gateway,
            self.driver(gateway, folder / "signing", tls=self.encrypts and self.trust is None) as driver,
        ):
            wanted = [name for name in BY_CREDENTIALS if name not in self.cannot]
            return outcomes | play(gateway, driver, wanted, BY_CREDENTIALS)

    def _wires(self, gateway: Gateway, folder: Path) -> dict[str, Outcome]:
        """TLS and plain text, each in a process of its own: some libraries know one of them for all their clients."""
        with self.driver(gateway, folder / "plain", tls=False) as driver:
            outcomes = play(gateway, driver, ["plainText"], {"plainText": flow})
        if "encrypted" in self.cannot:
            return outcomes
        if self.trust is None:
            with self.driver(gateway, folder / "tls", tls=True) as driver:
                return outcomes | play(gateway, driver, ["encrypted"], {"encrypted": flow})
        files = certificates(folder / "certificates")
        with (
            encrypted(folder / "checked", files) as gateway,
            self.driver(gateway, folder / "tls", tls=True, **{self.trust: str(files.authority)}) as driver,
        ):
            return outcomes | play(gateway, driver, ["encrypted"], {"encrypted": flow})


CLIENTS = [
    GrpcClient(
        f"Java {GRPC_JAVA_VERSION}",
        lambda home: java(grpc_java_driver(), "pyromq.Driver", heap="256m", home=home),
    ),
    GrpcClient(f"Go {GRPC_GO_VERSION}", lambda _home: [grpc_go_driver()]),
    GrpcClient(
        f"Python {GRPC_PYTHON_VERSION}",
        lambda _home: grpc_python_driver(),
        encrypts=False,
        trust="GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    ),
    GrpcClient(
        f"Node.js {GRPC_NODE_VERSION}",
        lambda _home: grpc_node_driver(),
        tool="npm",
        cannot={
            "leaving": "it leaves when its long polls have ended, and consumes what they still bring",
            "fifoDeadLetter": "it tries each message once when a group has the usual steps between attempts",
        },
        encrypts=False,
        trust="GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    ),
    GrpcClient(
        f"Rust {GRPC_RUST_VERSION}",
        lambda _home: grpc_rust_driver(),
        tool="cargo",
        cannot={
            **dict.fromkeys(("push", "pushRetry", "pushDeadLetter", "fifoDeadLetter"), "it has no push consumers"),
            "simple": "it cannot change for how long a message is invisible",
            "recall": "it has no recall",
            "encrypted": "its switch for TLS has no TLS behind it",
        },
        encrypts=False,
    ),
]
