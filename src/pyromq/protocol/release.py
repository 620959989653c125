"""Who wrote a command: its `language`, and its `version`, which is a release as its ordinal in one long list.

From V3_0_7 on every release takes two ordinals, the snapshot and then the final one, so an ordinal never changes.
"""

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


V3_0_7_SNAPSHOT = 28
V3_0_11 = 37
V3_1_8_SNAPSHOT = 62
V3_4_9 = 121
V4_0_0 = 213
V4_1_0_SNAPSHOT = 232
V4_2_0 = 253
V4_3_0 = 273
V4_4_0 = 293
V4_5_0 = 313
V4_5_2 = 317
V4_6_0 = 333
V4_7_1 = 355
V4_8_0 = 373
V4_9_0 = 393
V4_9_1 = 395
V4_9_2 = 397
V4_9_3 = 399
V4_9_4 = 401
V4_9_6 = 405
V4_9_7 = 407
V4_9_8 = 409
V5_0_0 = 413
V5_1_0 = 433
V5_1_4 = 441
V5_2_0 = 453
V5_3_0 = 473
V5_3_1 = 475
V5_3_2 = 477
V5_3_3 = 479
HIGHER_VERSION = 612

CURRENT = V5_3_3

# The releases before V3_0_1 do not follow the pattern.
_EARLIEST = [
    *(f"V3_0_0_{stage}" for stage in ("SNAPSHOT", "ALPHA1", "BETA1", "BETA2", "BETA3", "BETA4", "BETA5")),
    *(f"V3_0_0_BETA{beta}{suffix}" for beta in range(6, 10) for suffix in ("_SNAPSHOT", "")),
    "V3_0_0_FINAL",
]


def _releases() -> list[str]:
    def line(major: int, minor: int) -> range:
        if (major, minor) == (3, 0):
            return range(1, 16)
        return range(1, 10) if major == 3 and minor >= 3 else range(10)

    names = list(_EARLIEST)
    for major in (3, 4, 5):
        for minor in range(10):
            for patch in line(major, minor):
                release = f"V{major}_{minor}_{patch}"
                names += (f"{release}_SNAPSHOT", release)
    return [*names, "HIGHER_VERSION"]


_NAMES = _releases()


def version_name(number: int) -> str:
    """The release behind an ordinal: `version_name(479) == "V5_3_3"`. Larger ones read HIGHER_VERSION."""
    if number < 0:
        return str(number)
    return _NAMES[min(number, HIGHER_VERSION)]


def version_from_name(release: str) -> int | None:
    """The ordinal of a release as its version number has it: `version_from_name("5.3.3") == 479`."""
    return _BY_RELEASE.get(f"V{release.strip().replace('.', '_')}")


_BY_RELEASE = {name: number for number, name in enumerate(_NAMES)}
