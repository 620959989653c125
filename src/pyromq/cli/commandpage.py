"""The reference page of all commands, made from the commands themselves."""

import re
from collections.abc import Iterator
from typing import Any

INTRO = """\
# Commands

`pyromq COMMAND --help` shows the same. `pyromq --install-completion` teaches your shell the names. Tools find the
cluster by `-n`, else by `NAMESRV_ADDR`, else at `127.0.0.1:9876`; they print one line on standard error and end with
code 1 when something failed, with code 2 when they were called wrongly. Credentials come from
`$ROCKETMQ_HOME/conf/tools.yml` (`accessKey`, `secretKey`), as those of mqadmin, or from the file that
`ROCKETMQ_CLIENT_KEYFILE` names."""

NOTES = {
    "pyromq admin": "All take `-n` (`--namesrvAddr`), `--json`, and `--timeout` for the seconds of one request.",
    "pyromq broker": "Besides, every setting is a flag: see [broker settings](broker-settings.md).",
    "pyromq namesrv": "Besides, every setting is a flag: see [name server settings](namesrv-settings.md).",
}


def commands_page() -> str:
    """The Markdown text."""
    from pyromq.cli import Commands  # noqa: PLC0415 - the table of commands imports this module's command

    root = Commands(name="pyromq")
    lines = [INTRO, ""]
    for name, listed in root.commands.items():
        if not listed.hidden:
            command = root.load(name)
            lines += _section(f"pyromq {name}", command, depth=2)
    return "\n".join(lines)


def _section(path: str, command: Any, depth: int) -> Iterator[str]:
    yield from (f"{'#' * depth} {path}", "", *_text(command.help), "")
    if path in NOTES:
        yield from (NOTES[path], "")
    yield from _parameters(path, command)
    if command.epilog:
        yield from (f"Example: `{command.epilog.removeprefix('Example: ')}`", "")
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            real = command.load(name) if hasattr(command, "load") else child
            yield from _section(f"{path} {name}", real, depth + 1)


def _parameters(path: str, command: Any) -> Iterator[str]:
    rows = [row for parameter in command.params if (row := _row(path, parameter)) is not None]
    if rows:
        yield from ("| option | meaning | default |", "|---|---|---|", *rows, "")


def _row(path: str, parameter: Any) -> str | None:
    if parameter.name == "help" or parameter.hidden or _is_told_elsewhere(path, parameter):
        return None
    argument = parameter.param_type_name == "argument"
    names = [parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    kind = "" if argument or getattr(parameter, "is_flag", False) else f" `{_kind(parameter)}`"
    shown = ", ".join(f"`{name}`" for name in names)
    default = "required" if parameter.required else _default(parameter)
    return f"| {shown}{_cell(kind)} | {_cell(_plain(parameter.help or ''))} | {_cell(default)} |"


def _is_told_elsewhere(path: str, parameter: Any) -> bool:
    if path.startswith("pyromq admin "):
        return parameter.name in ("namesrv", "json", "timeout")
    return path in NOTES and getattr(parameter, "rich_help_panel", None) is not None


def _kind(parameter: Any) -> str:
    choices = getattr(parameter.type, "choices", None)
    if choices:
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return str(parameter.metavar or parameter.type.name.removesuffix(" range").replace("integer", "int"))


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or callable(value) or value == [] or "Sentinel" in type(value).__name__:
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _text(text: str | None) -> list[str]:
    """Paragraphs of a help text, each on one line."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return [line for paragraph in paragraphs for line in (_plain(paragraph), "")][:-1]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
