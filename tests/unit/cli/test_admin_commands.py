"""The commands of `pyromq admin` beside those of mqadmin: names, flags, examples."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyromq.cli.admin import ABSENT, CONTROLLER, app, entries
from pyromq.cli.admin.topics import parse_attributes
from pyromq.cli.options import ArgumentsError, at_most_one, one_of

# One line a command: its name, then its options as `mqadmin help` of 5.3.3 prints them, a blank in a name as "_".
MQADMIN = {
    name: options
    for name, *options in (
        line.split() for line in (Path(__file__).parent / "mqadmin-5.3.3.txt").read_text().splitlines()
    )
}
ENTRIES = entries()


def options_of(command: Any) -> list[str]:
    return [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]


def test_every_command_of_mqadmin_is_there_or_says_why_not() -> None:
    assert not ENTRIES.keys() & ABSENT.keys()
    assert MQADMIN.keys() <= ENTRIES.keys() | ABSENT.keys()


@pytest.mark.parametrize("name", sorted(MQADMIN.keys() & ENTRIES.keys()))
def test_commands_take_the_flags_of_mqadmin(name: str) -> None:
    command = ENTRIES[name].build()
    known = options_of(command)
    for option in MQADMIN[name]:
        *short, long = option.split(",")
        wanted = [*short, *([long] if "_" not in long else [])]
        assert set(wanted) <= set(known), f"{name} lacks {option}"
        if short and "_" not in long:
            (parameter,) = [each for each in command.params if long in each.opts]
            assert short[0] in parameter.opts, f"{name}: {option} are two options"


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_commands_teach(name: str) -> None:
    entry = ENTRIES[name]
    command = entry.build()
    assert entry.listing.summary.endswith((".", ")."))
    command.make_context(name, shlex.split(entry.example))  # the example parses
    for parameter in command.params:
        assert parameter.hidden or parameter.help, f"{name} {parameter.name} has no help"
    shown = CliRunner().invoke(app, ["help", name], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"Example: pyromq admin {name}" in shown.output
    assert "--json" in shown.output


def test_names_may_be_written_in_any_case() -> None:
    assert CliRunner().invoke(app, ["TOPICLIST", "-h"]).exit_code == 0


def test_choices_may_be_written_in_any_case() -> None:
    context = ENTRIES["updateTopic"].build().make_context("updateTopic", ["-t", "x", "-c", "c", "-o", "TRUE"])
    assert bool(context.params["order"]) is True


def test_what_does_not_apply_says_why() -> None:
    done = CliRunner().invoke(app, ["electmaster", "-a", "x"])
    assert done.exit_code == 2
    assert done.stderr == f"pyromq: electMaster does not apply: {CONTROLLER}\n"


def test_arguments_that_do_not_fit_end_with_code_2_before_anything_is_asked() -> None:
    done = CliRunner().invoke(app, ["updateTopic", "-t", "x", "-b", "a:1", "-c", "c"])
    assert (done.exit_code, done.stderr) == (2, "pyromq: give either a broker (-b) or a cluster (-c)\n")


def test_a_broker_or_a_cluster() -> None:
    assert one_of("b", None) == {"broker": "b", "cluster": None}
    with pytest.raises(ArgumentsError):
        one_of(None, None)
    assert at_most_one(None, None) == {"broker": None, "cluster": None}
    with pytest.raises(ArgumentsError):
        at_most_one("b", "c")


def test_attributes() -> None:
    assert parse_attributes("+a=b,+c=d=e,-f") == {"a": "b", "c": "d=e", "f": None}
    assert parse_attributes(None) == {}
    for wrong in ("a=b", "+a", "-a=b", "+=b"):
        with pytest.raises(ArgumentsError, match="is no change of an attribute"):
            parse_attributes(wrong)
