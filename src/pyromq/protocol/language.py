"""The `language` of a command: which kind of client or server wrote it."""

from enum import IntEnum


class Language(IntEnum):
    """A name in JSON headers, a number in binary ones. Readers turn what they do not know into None."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


_BY_NAME = {member.name: member for member in Language}
_BY_NUMBER = {member.value: member for member in Language}


def language_from_number(number: int) -> Language | None:
    """The language with this ordinal, None when there is none."""
    return _BY_NUMBER.get(number)


def language_from_name(name: str) -> Language | None:
    """The language with this name in any case or, as some writers have it, with this ordinal in digits."""
    if name.isdecimal() and len(name) <= 3:
        return _BY_NUMBER.get(int(name))
    return _BY_NAME.get(name.upper())
