"""What admin commands have in common: how they are declared, the cluster they talk to, how their result is shown.

A command is a function `f(session, **options) -> Output`, or a generator of outputs for those that repeat. It prints
nothing and ends the process nowhere: `PyroMQError` and `OSError` become one line and exit code 1.
"""

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from pyromq.cli.connection import NameServers, client_options
from pyromq.cli.lazy import Listing
from pyromq.cli.options import ArgumentsError
from pyromq.cli.output import Output, show
from pyromq.cli.servers.flags import fail
from pyromq.errors import PyroMQError

if TYPE_CHECKING:
    from pyromq.client.blocking.admin import Admin

JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, metavar="seconds", help="Of one request.")]

Function = Callable[..., Output | Iterator[Output]]


class Session:
    """One run of a command against one cluster; the admin client starts when it is first asked for."""

    def __init__(self, namesrv: str | None, timeout: float) -> None:
        self.namesrv = namesrv
        self.timeout = timeout
        self._admin: Admin | None = None

    @property
    def options(self) -> dict[str, Any]:
        """For clients of the same cluster."""
        return client_options(self.namesrv)

    @property
    def admin(self) -> "Admin":
        """The admin client, running. Raises ClientError."""
        if self._admin is None:
            from pyromq.client.blocking.admin import Admin  # noqa: PLC0415 - --help needs no client

            admin = Admin(timeout=self.timeout, **self.options)
            admin.start()
            self._admin = admin
        return self._admin

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._admin is not None:
            self._admin.close()


@dataclass(frozen=True, slots=True)
class Entry:
    """A command before Typer knows it."""

    name: str
    function: Function
    example: str
    subject: str
    accepted: Mapping[str, str]
    """Options of mqadmin without a meaning here, short to long: they are taken and ignored."""

    @property
    def listing(self) -> Listing:
        return Listing(inspect.cleandoc(self.function.__doc__ or "").partition("\n\n")[0], self.subject)

    def build(self) -> Any:
        """The command as Typer runs it."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(
            self.name,
            epilog=f"Example: pyromq admin {self.name} {self.example}".rstrip(),
            context_settings={"help_option_names": ["-h", "--help"]},
        )(_callback(self.function, self.accepted))
        command = typer.main.get_command(app)
        for parameter in command.params:
            if hasattr(parameter.type, "case_sensitive"):
                parameter.type.case_sensitive = False  # Java's true and TRUE are the same
        return command


@dataclass(slots=True)
class Subject:
    """The commands about one thing, in the order in which help shows them."""

    title: str
    entries: list[Entry] = field(default_factory=list)

    def command(
        self, name: str, example: str = "", *, accepted: Mapping[str, str] | None = None
    ) -> Callable[[Function], Function]:
        """Declare a command under mqadmin's name, with an example of its arguments."""

        def declare(function: Function) -> Function:
            self.entries.append(Entry(name, function, example, self.title, accepted or {}))
            return function

        return declare


def repeated(interval: float | None, look: Callable[[], Output]) -> Iterator[Output]:
    """One look, or with an interval another one after each pause of so many seconds."""
    yield look()
    while interval is not None:
        time.sleep(interval)
        yield look()


def _callback(function: Function, accepted: Mapping[str, str]) -> Callable[..., None]:
    """The function with the options that all commands share in place of its session."""
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    ignored = {long.lstrip("-"): typer.Option(long, short, hidden=True) for short, long in accepted.items()}

    def run(namesrv: str | None, json: bool, timeout: float, **options: Any) -> None:
        given = {name: value for name, value in options.items() if name not in ignored}
        try:
            with Session(namesrv, timeout) as session:
                for output in _outputs(function(session, **given)):
                    show(output, json=json)
        except ArgumentsError as error:
            fail(str(error), code=2)
        except (PyroMQError, OSError) as error:
            fail(str(error))

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("namesrv", keyword, default=None, annotation=NameServers),
        inspect.Parameter("json", keyword, default=False, annotation=JSON),
        inspect.Parameter("timeout", keyword, default=5.0, annotation=Timeout),
    ]
    shared += [
        inspect.Parameter(name, keyword, default=None, annotation=Annotated[str | None, option])
        for name, option in ignored.items()
    ]
    mine = [each.replace(kind=keyword) for each in own]
    run.__signature__ = inspect.Signature([*mine, *shared])  # type: ignore[attr-defined]  # read by inspect
    run.__doc__ = function.__doc__
    run.__name__ = function.__name__
    return run


def _outputs(result: Output | Iterator[Output]) -> Iterator[Output]:
    if isinstance(result, Iterator):
        yield from result
    else:
        yield result
