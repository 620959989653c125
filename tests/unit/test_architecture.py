"""The house keeps its limits, and the page about it is current: `python -m tests.architecture` rewrites it."""

from tests.architecture import figures, page

FLAT_FACES = {
    "client/admin/admin.py Admin",
    "client/blocking/admin.py Admin",
}
"""One method for each command of mqadmin, under the names that users know: made of one class a subject."""


def test_no_folder_is_crowded() -> None:
    assert not figures.crowded_folders()


def test_no_class_offers_too_much() -> None:
    assert [each for each in figures.large_classes() if each.partition(":")[0] not in FLAT_FACES] == []


def test_no_constructor_takes_too_much() -> None:
    assert not [each for each in figures.wide_constructors() if not each.startswith("protocol/message.py ")]


def test_files_are_named_by_nouns() -> None:
    assert not figures.gerunds()


def test_the_page_is_current() -> None:
    assert page.part("picture") == page.picture()
    assert page.part("figures") == page.figures()
