"""The checklist page and the script that writes it."""

import pytest

from tests import checklist

SOURCE = '''
"""S-01: a whole file."""

# P-01 .. P-03: above
@decorated
def test_above() -> None:
    """P-05 in words."""
    x = 1  # P-04
    # N-01, N-02
    assert x


# A remark about a table, P-06.
TABLE = 1


class TestInside:
    def test_method(self) -> None:
        # SP-01
        pass
'''


def claimed() -> dict[str, set[str | None]]:
    known = list(checklist.titles())
    found: dict[str, set[str | None]] = {}
    for claim in checklist.claims(SOURCE):
        for each in checklist.named(claim.text, known):
            found.setdefault(each, set()).add(claim.test)
    return found


def test_comments_and_docstrings_are_claims() -> None:
    assert claimed() == {
        "S-01": {None},
        **{each: {"test_above"} for each in ("P-01", "P-02", "P-03", "P-04", "P-05", "N-01", "N-02")},
        "P-06": {None},
        "SP-01": {"test_method"},
    }


def test_an_unknown_id_is_an_error() -> None:
    with pytest.raises(ValueError, match="P-999"):
        list(checklist.named("# P-999", list(checklist.titles())))


def test_ids_are_unique_and_of_a_known_section() -> None:
    known = checklist.titles()
    assert len(known) == len(checklist.LIST.read_text().splitlines()) - 1
    assert {each.split("-")[0] for each in known} == checklist.SECTIONS.keys()


def test_the_page_is_fresh() -> None:
    assert checklist.PAGE.read_text() == checklist.page(), "run: python -m tests.checklist"


def test_every_behaviour_of_producers_and_consumers_has_a_test() -> None:
    without = checklist.missing(checklist.collect())
    assert [each for each in without if each.split("-")[0] in ("P", "C")] == []
