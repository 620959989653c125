"""How writers name themselves and the places of their messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.bodies.offsets import WriterQueues
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.handles.writer import MAX_NAME, MAX_NUMBER, PLACE, WRITER, Place, check_writer
from pyromq.protocol.properties import decode_properties, encode_properties

numbers = st.integers(min_value=0, max_value=MAX_NUMBER)


@given(st.builds(Place, numbers, numbers, numbers, numbers, numbers))
def test_a_place_reads_as_it_was_written(place: Place) -> None:
    assert Place.parse(str(place)) == place


@given(st.text(alphabet=st.sampled_from("0123456789.-+ _e٣x"), max_size=60))
def test_a_text_is_a_place_or_refused(text: str) -> None:
    try:
        place = Place.parse(text)
    except ValidationError:
        return
    assert text.count(".") == 4
    assert [int(part) for part in text.split(".")] == list(place)
    assert 0 <= min(place) <= max(place) <= MAX_NUMBER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2.3.4",
        "1.2.3.4.5.6",
        "1.2.3.4.",
        "1.2.3.-4.5",
        "1.2.3.4.5 ",
        "1.2.3.4.٣",
        "1.2.3.4.1e3",
        "....",
        "x",
    ],
)
def test_nonsense_is_no_place(text: str) -> None:
    with pytest.raises(ValidationError, match=r"run\.lane\.attempt\.queue\.sequence"):
        Place.parse(text)


@pytest.mark.parametrize("number", [MAX_NUMBER + 1, 10**19])
def test_numbers_have_a_bound(number: int) -> None:
    assert Place.parse(f"0.0.0.0.{MAX_NUMBER}").sequence == MAX_NUMBER
    with pytest.raises(ValidationError):
        Place.parse(f"0.0.0.0.{number}")


@pytest.mark.parametrize("name", ["q", "5d1c7a52-0000/topic", "näme with spaces", "x" * MAX_NAME])
def test_names_that_can_be(name: str) -> None:
    check_writer(name)
    properties = {WRITER: name, PLACE: "1.2.3.4.5"}
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1), "a\x01b", "a\x02b", "a\nb", "a\x00", "\udc80"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(ValidationError, match="writer's name"):
        check_writer(name)


def test_the_answer_keeps_numbers_of_queues() -> None:
    queues = WriterQueues(ends={0: 5, 12: 7}, origins={3: 1})
    assert WriterQueues.decode(queues.encode()) == queues
