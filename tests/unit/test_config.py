"""Settings: files, environment, flags, remote changes, and what is never shown."""

from enum import StrEnum
from pathlib import Path
from typing import ClassVar

import pytest

from pyromq.remoting.accept.settings import ServerSettings, is_loopback
from pyromq.settings.declaration import Settings, options, settings
from pyromq.settings.errors import ConfigError, NotReloadableError, UnknownKeyError
from pyromq.settings.option import MASK, Address, Addresses, Secret, computed, option
from pyromq.settings.process import ProcessSettings
from pyromq.settings.reference import reference


class Flush(StrEnum):
    SYNC = "SYNC_FLUSH"
    ASYNC = "ASYNC_FLUSH"


@settings
class Network(ProcessSettings):
    """Network.

    Second line.
    """

    namesrv_addr: Addresses = option((), "Name servers.", env="NAMESRV_ADDR", short="n")
    broker_ip: Address = option("127.0.0.1", "Advertised address.", key="brokerIP1")
    password: Secret = option("", "Password.")


@settings
class Example(Network):
    """Example"""

    ignored: ClassVar[frozenset[str]] = frozenset({"nettyThreads"})

    port: int = option(10911, "Port.", minimum=0, maximum=65535, key="listenPort")
    ratio: float = option(0.5, "Share.", minimum=0, maximum=1, reloadable=True)
    enabled: bool = option(True, "Switch.", reloadable=True)
    flush: Flush = option(Flush.SYNC, "When to flush.", key="flushDiskType", reloadable=True)
    root: Path = option(computed(lambda: Path("somewhere"), "~/store"), "Data | files.")
    trust: Path | None = option(None, "Authorities.")
    words: tuple[str, ...] = option((), "Words.")
    backlog: int = option(100, "Waiting.", minimum=1, unit="ms", reloadable=True)


def properties(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "example.conf"
    file.write_text(text)
    return file


def test_defaults() -> None:
    example = Example()
    assert (example.port, example.enabled, example.flush, example.root) == (10911, True, Flush.SYNC, Path("somewhere"))
    assert example.trust is None


def test_a_java_property_file_loads_as_it_is(tmp_path: Path) -> None:
    text = """
        # Licensed to somebody
        listenPort = 10921
        enabled=TRUE
        flushDiskType=ASYNC_FLUSH
        namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
        brokerIP1: broker.example.com
        ratio 0.25
        root=/data/\\
            store
        words=a, b;c
        nettyThreads=8
        """
    example = Example.load(file=properties(tmp_path, text))
    assert (example.port, example.enabled, example.flush, example.ratio) == (10921, True, Flush.ASYNC, 0.25)
    assert example.namesrv_addr == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert example.words == ("a", "b", "c")
    assert (example.broker_ip, example.root) == ("broker.example.com", Path("/data/store"))


def test_the_environment_beats_the_file_and_flags_beat_both(tmp_path: Path) -> None:
    file = properties(tmp_path, "listenPort=1\nbacklog=1\nratio=0.1\n")
    environ = {"PYROMQ_PORT": "2", "PYROMQ_BACKLOG": "2", "NAMESRV_ADDR": "h:1", "PYROMQ_SOMETHING_ELSE": "x"}
    example = Example.load(file=file, environ=environ, flags={"port": "3"})
    assert (example.port, example.backlog, example.ratio) == (3, 2, 0.1)
    assert example.namesrv_addr == ("h:1",)


def test_our_own_variable_beats_the_borrowed_one() -> None:
    example = Example.load(environ={"NAMESRV_ADDR": "theirs:1", "PYROMQ_NAMESRV_ADDR": "ours:1"})
    assert example.namesrv_addr == ("ours:1",)


@pytest.mark.parametrize(
    ("key", "nearest"), [("listenport", "listenPort"), ("flushDisktype", "flushDiskType"), ("enable", "enabled")]
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, key: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=rf"example\.conf: unknown key '{key}'; did you mean {nearest}\?"):
        Example.load(file=properties(tmp_path, f"{key}=1"))


def test_an_unknown_key_without_a_relative(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'zzzzzz'$"):
        Example.load(file=properties(tmp_path, "zzzzzz=1"))


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("listenPort", "many", "a whole number from 0 to 65535"),
        ("listenPort", "65536", "a whole number from 0 to 65535"),
        ("listenPort", "-1", "from 0 to 65535"),
        ("listenPort", "1_0", "a whole number"),
        ("listenPort", "\uff11", "a whole number"),
        ("listenPort", "9" * 30, "a whole number"),
        ("backlog", "0", r"a whole number, 1 or more \(ms\)"),
        ("ratio", "nan", "a number from 0 to 1"),
        ("ratio", "x", "a number from 0 to 1"),
        ("enabled", "yes", "true or false"),
        ("flushDiskType", "NEVER", "one of SYNC_FLUSH, ASYNC_FLUSH"),
        ("root", "", "a path"),
    ],
)
def test_a_refused_value_says_key_value_and_what_is_allowed(tmp_path: Path, key: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = '{text}' is not allowed; it must be .*{allowed}"):
        Example.load(file=properties(tmp_path, f"{key}={text}"))


def test_values_given_in_python_are_checked_too() -> None:
    with pytest.raises(ConfigError, match="listenPort"):
        Example(port=70000)
    with pytest.raises(ConfigError, match="listenPort"):
        Example(port=True)
    with pytest.raises(ConfigError, match="listenPort"):
        Example(port="1")  # type: ignore[arg-type]  # what an untyped caller might do
    assert Example(ratio=1).ratio == 1


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        Example.load(file=tmp_path / "missing.conf")
    binary = tmp_path / "binary.conf"
    binary.write_bytes(b"\xff\xfe=\xff")
    with pytest.raises(ConfigError, match=r"binary\.conf"):
        Example.load(file=binary)
    huge = tmp_path / "huge.conf"
    huge.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="longer than"):
        Example.load(file=huge)
    with pytest.raises(ConfigError, match="line 1"):
        Example.load(file=properties(tmp_path, "listenPort=\\u12"))


def test_remote_changes_are_an_allow_list() -> None:
    example = Example()
    assert example.change({"ratio": "0.75", "enabled": "false"}) == {"ratio": 0.75, "enabled": False}
    assert (example.ratio, example.enabled) == (0.75, False)
    for key in ("listenPort", "root", "trust", "namesrvAddr", "brokerIP1", "password", "nettyThreads"):
        with pytest.raises(NotReloadableError, match=key):
            example.change({key: "1"})
    with pytest.raises(UnknownKeyError, match="did you mean ratio"):
        example.change({"ratios": "1"})


def test_a_remote_change_applies_whole_or_not_at_all() -> None:
    example = Example()
    for bad in ({"ratio": "0.1", "backlog": "0"}, {"ratio": "0.1", "root": "/tmp"}):  # noqa: S108 - only a value
        with pytest.raises(ConfigError):
            example.change(bad)
    assert example.ratio == 0.5


def test_sensitive_options_are_not_public() -> None:
    example = Example(password="hunter2", broker_ip="10.9.9.9", namesrv_addr=("h:1",), trust=Path("/ca"))  # noqa: S106 - an invented one
    assert example.public() == {
        "listenPort": "10911",
        "ratio": "0.5",
        "enabled": "true",
        "flushDiskType": "SYNC_FLUSH",
        "words": "",
        "backlog": "100",
    }


def test_secrets_are_masked_wherever_they_could_show() -> None:
    example = Example(password="hunter2")  # noqa: S106 - an invented one
    assert example.printable()["password"] == MASK
    assert example.printable()["brokerIP1"] == "127.0.0.1"
    assert "hunter2" not in repr(example)
    with pytest.raises(ConfigError) as failure:
        Example(password=b"hunter2")  # type: ignore[arg-type]  # what an untyped caller might do
    assert "hunter2" not in str(failure.value)


def test_what_is_printed_can_be_loaded_again() -> None:
    example = Example(words=("a", "b"), flush=Flush.ASYNC, enabled=False, trust=Path("/ca"), ratio=0.25)
    for each in options(Example).values():
        value = getattr(example, each.name)
        assert each.parse(each.render(value)) == value


def test_a_sensitive_option_cannot_be_declared_reloadable() -> None:
    with pytest.raises(TypeError, match="reloadable"):

        @settings
        class Wrong(Settings):
            where: Path = option(Path(), "Where.", reloadable=True)


def test_a_key_cannot_be_declared_twice() -> None:
    with pytest.raises(TypeError, match="same"):

        @settings
        class Wrong(Settings):
            first: int = option(1, "First.", key="same")
            second: int = option(2, "Second.", key="same")


def test_the_reference_page() -> None:
    page = reference("Settings of the example", "All of them.", Example)
    assert page.startswith("# Settings of the example\n\nAll of them.\n\n## Network\n\n| key |")
    assert "\n## Example\n" in page
    assert (
        "| `listenPort`<br>`--port`<br>`PYROMQ_PORT` | `10911` | a whole number from 0 to 65535 | Port. |\n"
    ) in page
    assert "| `root`<br>`--root`<br>`PYROMQ_ROOT` | `~/store` | a path | Data \\| files. |" in page
    assert "| `password`<br>`PYROMQ_PASSWORD` | none | text | Password. *secret* |" in page
    assert "| Share. *reloadable* |" in page
    assert page.endswith("Keys of Apache's files that mean nothing here:\n`nettyThreads`\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_word(host: str) -> None:
    assert is_loopback(host)
    ServerSettings(host=host).check_exposure(authenticated=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "example.com", "localhost.example.com"])  # noqa: S104 - refused below
def test_a_wider_bind_needs_authentication_or_a_word(host: str) -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        ServerSettings(host=host).check_exposure(authenticated=False)
    ServerSettings(host=host).check_exposure(authenticated=True)
    ServerSettings(host=host, insecure=True).check_exposure(authenticated=False)


def test_enforced_tls_needs_a_certificate() -> None:
    assert ServerSettings().server_tls() is None
    with pytest.raises(ConfigError, match="certPath"):
        ServerSettings.load(flags={"tls_mode": "enforcing"}).server_tls()
