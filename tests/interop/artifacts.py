"""Published artifacts, fetched and built once into a folder that git ignores; what changed is built again."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".interop"

CLIENT_VERSIONS = ("4.9.8", "5.5.0")
"""Releases of the Java client that are tried: one of the 4.9 line and the newest."""
SERVER_VERSION = "5.5.0"
"""The release of Apache's servers and tools that is run."""
LEGACY_SERVER_VERSION = "4.9.7"
"""The last release of the 4.9 line that is on Maven Central as servers too."""
GO_VERSION = "2.1.2"
"""The release of the Go client that go.mod names."""
GRPC_JAVA_VERSION = "5.2.0"
"""The release of the gRPC client for Java that is tried."""
GRPC_GO_VERSION = "5.1.4"
"""The release of the gRPC client for Go that go.mod names."""
CPP_VERSION = "1.0.1"
"""The release of the C++ client inside the package that requirements.txt names."""
GRPC_PYTHON_VERSION = "5.1.2"
"""The release of the gRPC client for Python that its requirements.txt names."""
GRPC_NODE_VERSION = "1.0.8"
"""The release of the gRPC client for Node.js that package.json names."""
GRPC_RUST_VERSION = "5.0.0"
"""The release of the gRPC client for Rust that Cargo.toml names."""

BUILD_TIMEOUT = 900


def java_driver(version: str) -> str:
    """Class path of the driver, compiled against this release of the client."""
    return _compiled(f"java-client-{version}", HERE / "java", version)


def grpc_java_driver() -> str:
    """The same of the gRPC client."""
    return _compiled(f"grpc-java-{GRPC_JAVA_VERSION}", HERE / "grpc" / "java", GRPC_JAVA_VERSION)


def _compiled(name: str, project: Path, version: str) -> str:
    target = CACHE / name
    listing = target / "classpath.txt"
    with _once(target, project) as build:
        if build:
            source = target / "source"
            shutil.copytree(project, source, ignore=shutil.ignore_patterns("target"))
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
    return f"{maven_jars(f'apache-{version}', HERE / 'apache', {'rocketmq.version': version})}/*"


def apache_proxy(version: str = SERVER_VERSION) -> str:
    """Class path of Apache's proxy."""
    jars = maven_jars(f"apache-proxy-{version}", HERE / "apacheproxy", {"rocketmq.version": version})
    return f"{jars}/*"


def maven_jars(name: str, source: Path, versions: Mapping[str, str]) -> Path:
    """The folder with the jars that the pom.xml of a folder asks for, in these versions of its properties."""
    target = CACHE / name
    with _once(target, source) as build:
        if build:
            shutil.copytree(source, target / "source")
            chosen = [f"-D{key}={value}" for key, value in versions.items()]
            goal = ("dependency:copy-dependencies", f"-DoutputDirectory={target / 'lib'}")
            run_tool(["mvn", "-q", "-B", *chosen, *goal], target / "source")
    return target / "lib"


def go_driver() -> str:
    """The driver of the Go client, built."""
    return _linked("go-client", HERE / "go")


def grpc_go_driver() -> str:
    """The same of the gRPC client."""
    return _linked("grpc-go", HERE / "grpc" / "go")


def _linked(name: str, project: Path) -> str:
    target = CACHE / name
    with _once(target, project) as build:
        if build:
            run_tool(["go", "build", "-o", str(target / "driver"), "."], project)
    return str(target / "driver")


def cpp_driver() -> list[str]:
    """The driver of the C++ client, with the interpreter of an environment that has it."""
    return [python_environment("cpp-client", HERE / "cpp" / "requirements.txt"), str(HERE / "cpp" / "driver.py")]


def grpc_python_driver() -> list[str]:
    """The driver of the gRPC client for Python, with the interpreter of an environment that has it."""
    source = HERE / "grpc" / "python"
    return [python_environment("grpc-python", source / "requirements.txt"), str(source / "driver.py")]


def grpc_node_driver() -> list[str]:
    """The driver of the gRPC client for Node.js, beside the packages that it needs."""
    target = CACHE / "grpc-node"
    with _once(target, HERE / "grpc" / "node") as build:
        if build:
            shutil.copytree(HERE / "grpc" / "node", target / "source", ignore=shutil.ignore_patterns("node_modules"))
            run_tool(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], target / "source")
    return ["node", str(target / "source" / "driver.js")]


def grpc_rust_driver() -> list[str]:
    """The driver of the gRPC client for Rust, built; what it depends on is kept, for it is built for minutes."""
    target = CACHE / "grpc-rust"
    with _once(target, HERE / "grpc" / "rust") as build:
        if build:
            built = CACHE / "grpc-rust-target"
            run_tool(["cargo", "build", "--quiet", "--locked", "--target-dir", str(built)], HERE / "grpc" / "rust")
            shutil.copy(built / "debug" / "interop", target / "driver")
    return [str(target / "driver")]


def python_environment(name: str, requirements: Path) -> str:
    """The interpreter of an environment of its own that has these packages."""
    target = CACHE / name
    with _once(target, requirements) as build:
        if build:
            run_tool([sys.executable, "-m", "venv", str(target / "venv")], HERE)
            run_tool([str(target / "venv" / "bin" / "pip"), "install", "--quiet", "-r", str(requirements)], HERE)
    return str(target / "venv" / "bin" / "python")


def _maven(folder: Path, version: str, *goals: str) -> None:
    run_tool(["mvn", "-q", "-B", f"-Drocketmq.version={version}", *goals], folder)


def run_tool(command: list[str], folder: Path) -> None:
    """Run a build step; RuntimeError with the end of its output when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed in {folder}:\n{(done.stdout + done.stderr)[-4000:]}")


@contextmanager
def _once(target: Path, source: Path) -> Iterator[bool]:
    """Whether the folder has to be filled: it counts as filled after that went well and until the source changes."""
    CACHE.mkdir(exist_ok=True)
    done = target / ".complete"
    digest = _digest(source)
    with (CACHE / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == digest:
            yield False
            return
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        yield True
        done.write_text(digest)


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in [folder, *folder.rglob("*")] if path.is_file()):
        total.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()
