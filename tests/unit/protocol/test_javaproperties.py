"""Java properties text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import BodyError
from pyromq.protocol.javaproperties import MAX_TEXT, dumps, loads


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("", {}),
        ("a=b\n", {"a": "b"}),
        ("namesrvAddr=127.0.0.1:9876;127.0.0.2:9876", {"namesrvAddr": "127.0.0.1:9876;127.0.0.2:9876"}),
        ("  a = b  \r\n\tc:d\re f", {"a": "b  ", "c": "d", "e": "f"}),
        ("# x=1\n  ! y=2\n\n \t\nz=3", {"z": "3"}),
        ("a\nb=\nc", {"a": "", "b": "", "c": ""}),
        ("list=a,\\\n     b,\\\r\n  c\nd=1", {"list": "a,b,c", "d": "1"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("path=C:\\\\data\\\\\nb=1", {"path": "C:\\data\\", "b": "1"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\u00e9\\uD83D\\uDE00", {"a": "\t\n\r\fqé\U0001f600"}),
        ("a=\\uD83D!", {"a": "\ufffd!"}),
        ("a==b", {"a": "=b"}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_reads(text: str, table: dict[str, str]) -> None:
    assert loads(text) == table


def test_writes_plainly_where_it_can() -> None:
    table = {"namesrvAddr": "127.0.0.1:9876", "a key": " x y", "#c": "ä\U0001f600", "p": "C:\\a\nb"}
    assert dumps(table) == ("namesrvAddr=127.0.0.1:9876\na\\ key=\\ x y\n\\#c=\\u00e4\\ud83d\\ude00\np=C:\\\\a\\nb\n")


@given(st.dictionaries(st.text(), st.text()))
def test_round_trip(table: dict[str, str]) -> None:
    text = dumps(table)
    assert text.isascii()
    assert loads(text) == table


@given(st.text(alphabet=st.sampled_from("ab=: \t\\u0\n\r#!é")))
def test_reads_anything_or_complains(text: str) -> None:
    try:
        table = loads(text)
    except BodyError:
        return
    assert loads(dumps(table)) == table


def test_complaints() -> None:
    with pytest.raises(BodyError, match=r"line 2: \\u needs four hexadecimal digits"):
        loads("a=1\nb=\\u12")
    with pytest.raises(BodyError, match="longer than the limit"):
        loads(" " * (MAX_TEXT + 1))
