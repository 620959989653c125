"""Which brokers make up a fleet: the name, ports and folders of each, and what they share. Nothing is started here.

The first is the broker that the settings describe, with its name, ports and folders: a broker keeps its messages when
it gets company. The others are made from it by their number: `name-1`, every port 10 higher, folders below
`processes/1` in those of the first. Users and rules stay one: all use the folder of the first.

Invariant: the number alone decides; the same file and number are the same broker after every start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyromq.broker.config import BrokerConfig
from pyromq.broker.ports import NO_HTTP
from pyromq.remoting.address import Address
from pyromq.remoting.errors import AddressError
from pyromq.settings.declaration import options
from pyromq.settings.errors import ConfigError
from pyromq.store.config import BrokerRole

MOST: Final = 64
STEP: Final = 10
"""Between the ports of one broker and the next: room for the fast one below and the one for slaves above."""
FOLDER: Final = "processes"
LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of a fleet. `flags` are what its command is told besides file and environment, by Python name."""

    number: int
    config: BrokerConfig
    flags: Mapping[str, str]

    @property
    def name(self) -> str:
        """Under which it is known."""
        return self.config.broker_name

    @property
    def ports(self) -> tuple[int, ...]:
        """Those that are known before it starts."""
        config, main = self.config, self.config.listen_port
        found = ([main - 2] if config.fast_listen and main else []) + ([main] if main else [])
        if config.broker_role is not BrokerRole.SLAVE and (config.ha_listen_port or main):
            found.append(config.ha_listen_port or main + 1)
        if (config.grpc_port or 0) > 0:
            found.append(config.grpc_port or 0)
        return tuple(found)

    @property
    def needs(self) -> str:
        """The ports and the folder that nobody else may have, for people."""
        ports = ", ".join(map(str, self.ports)) or "free ones"
        return f"ports {ports}, folder {self.config.store_path_root_dir}"

    def arguments(self) -> list[str]:
        """What follows `pyromq broker`."""
        known, origin = options(BrokerConfig), self.config.origin
        found = ["--config", str(origin.file)] if origin is not None and origin.file is not None else []
        for name, text in self.flags.items():
            flag = known[name].flag
            if known[name].type is bool:
                found.append(flag if text == "true" else f"--no-{flag[2:]}")
            else:
                found += [flag, text]
        return found


def members(config: BrokerConfig, processes: int) -> list[Member]:
    """The brokers of a fleet of so many. Raises ConfigError."""
    origin = config.origin
    _check_room(config, processes)
    found = []
    for number in range(processes):
        given = dict(origin.flags or {}) if origin is not None else {}
        flags = given | derived(config, number)
        file, environ = (origin.file, origin.environ) if origin is not None else (None, None)
        found.append(Member(number, BrokerConfig.load(file=file, environ=environ, flags=flags), flags))
    _check_ports(config, found)
    return found


def derived(config: BrokerConfig, number: int) -> dict[str, str]:
    """The settings of a member that are its own, by Python name; pages are left to its supervisor."""
    shift = number * STEP
    found = {
        "broker_name": _name(config, number),
        "listen_port": str(config.listen_port + shift if config.listen_port else 0),
        "ha_listen_port": str(config.ha_listen_port + shift if config.ha_listen_port else 0),
        "store_path_root_dir": str(_folder(config.store_path_root_dir, number)),
        "http_port": str(NO_HTTP),
    }
    if (config.grpc_port or 0) > 0:
        found["grpc_port"] = str((config.grpc_port or 0) + shift)
    if config.store_path_commit_log is not None:
        found["store_path_commit_log"] = str(_folder(config.store_path_commit_log, number))
    for name in ("ha_master_address", "master_broker_address"):
        if address := getattr(config, name):
            found[name] = _shifted(address, shift)
    users = config.auth_config_path or config.config_dir / "auth"
    if config.is_authenticated:
        found["auth_config_path"] = str(users)
    if config.is_authenticated or config.audit_log_path is not None:
        audit = config.audit_log_path or users / "audit.log"
        found["audit_log_path"] = str(audit.with_stem(f"{audit.stem}-{number}") if number else audit)
    return found


def check_left_over(config: BrokerConfig, processes: int) -> None:
    """Raise ConfigError when there are messages of brokers that so many processes would not run.

    Nobody could read them, and nobody would notice.
    """
    for number in _numbers(config.store_path_root_dir / FOLDER):
        folder = _folder(config.store_path_root_dir, number)
        elsewhere = config.store_path_commit_log
        log = folder / "commitlog" if elsewhere is None else _folder(elsewhere, number)
        if number >= processes and _has_files(log):
            raise ConfigError(
                f"{folder} holds messages of the broker {_name(config, number)}, which would not run: start with "
                f"--processes {number + 1}, or move that folder away once its messages are consumed"
            )


def _numbers(folder: Path) -> Iterator[int]:
    if folder.is_dir():
        names = (each.name for each in folder.iterdir() if each.name.isascii() and each.name.isdigit())
        yield from sorted({int(name) for name in names if len(name) < 6}, reverse=True)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(each.is_file() for each in folder.iterdir())


def _name(config: BrokerConfig, number: int) -> str:
    return f"{config.broker_name}-{number}" if number else config.broker_name


def _folder(folder: Path, number: int) -> Path:
    return folder / FOLDER / str(number) if number else folder


def _shifted(address: str, shift: int) -> str:
    """Where the master of the same number is, if its host runs a fleet of the same file."""
    try:
        parsed = Address.parse(address)
    except AddressError as error:
        raise ConfigError(str(error)) from error
    return str(Address(parsed.host, parsed.port + shift))


def _check_room(config: BrokerConfig, processes: int) -> None:
    ports = (
        ("listenPort", config.listen_port, 1),
        ("haListenPort", config.ha_listen_port, 0),
        ("grpcServerPort", max(config.grpc_port or 0, 0), 0),
    )
    for key, port, beside in ports:
        highest = port + beside + (processes - 1) * STEP
        if port and highest > LAST_PORT:
            raise ConfigError(
                f"{key} = {port} leaves no room for {processes} brokers, whose ports are {STEP} apart and would reach "
                f"{highest}: set it to {LAST_PORT - highest + port} or lower"
            )


def _check_ports(config: BrokerConfig, found: Sequence[Member]) -> None:
    taken = {config.http_port: "the page of metrics and health"} if (config.http_port or 0) > 0 else {}
    for member in found:
        for port in member.ports:
            if port in taken:
                raise ConfigError(
                    f"port {port} would be taken by {taken[port]} and by the broker {member.name}: every broker has "
                    f"listenPort, the port two below it, haListenPort and grpcServerPort, {STEP} higher than the one "
                    "before; set another listenPort, haListenPort, grpcServerPort or httpPort"
                )
            taken[port] = f"the broker {member.name}"
