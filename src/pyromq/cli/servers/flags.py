"""Command-line flags out of a settings class, so that no server command spells out its options."""

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from pyromq.cli.plaintext import one_line
from pyromq.errors import PyroMQError
from pyromq.protocol import javaproperties
from pyromq.settings.declaration import options
from pyromq.settings.option import Option, text_of
from pyromq.settings.process import ProcessSettings

S = TypeVar("S", bound=ProcessSettings)

_FILE = Annotated[Path | None, typer.Option("--config", "-c", help="Property file; Apache's files load as they are.")]
_PRINT = Annotated[bool, typer.Option("--print-config", "-p", help="Print the settings that would apply, and exit.")]
_METAVARS: dict[type, str] = {int: "int", float: "number", Path: "path"}


def settings_command(settings: type[S]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a Typer command of `function(config, **own)`: a flag for each option of `settings`, besides its own."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        _, *rest = inspect.signature(function, eval_str=True).parameters.values()
        own = [_keyword(each.name, each.annotation, each.default) for each in rest]

        def command(config_file: Path | None, print_config: bool, **values: Any) -> None:
            arguments = {each.name: values.pop(each.name) for each in own}
            flags = {name: text_of(value) for name, value in values.items() if value is not None}
            try:
                config = settings.load(file=config_file, environ=os.environ, flags=flags)
            except PyroMQError as error:
                fail(str(error), code=2)
            if print_config:
                typer.echo(javaproperties.dumps(config.printable()), nl=False)
                return
            function(config, **arguments)

        flags = [_parameter(option) for option in options(settings).values() if not option.secret]
        head = [_keyword("config_file", _FILE, None), _keyword("print_config", _PRINT, default=False)]
        command.__signature__ = inspect.Signature([*head, *own, *flags])  # type: ignore[attr-defined]  # read by inspect
        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        return command

    return decorate


def fail(text: str, *, code: int = 1) -> NoReturn:
    """Say what is wrong, in one line on standard error, and end the command."""
    typer.echo(f"pyromq: {one_line(text)}", err=True)
    sys.exit(code)


def _parameter(option: Option) -> inspect.Parameter:
    names = [option.flag, f"-{option.short}"] if option.short else [option.flag]
    if option.type is bool:
        names[0] += f"/--no-{option.flag[2:]}"
    info = typer.Option(
        *names,
        help=f"{option.doc} ({option.allowed}; default {option.default or 'none'})",
        metavar="" if option.type is bool else f"<{_METAVARS.get(option.type, 'text')}>",
        rich_help_panel=option.section,
        show_default=False,
    )
    kind: Any = bool if option.type is bool else str
    return _keyword(option.name, Annotated[kind | None, info], None)


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
