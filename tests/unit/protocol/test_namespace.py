"""Namespaces in topic and group names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.namespace import namespace_of_endpoint, unwrap, wrap


# P-89
@pytest.mark.parametrize(
    ("resource", "wrapped"),
    [
        ("T", "N%T"),
        ("%RETRY%G", "%RETRY%N%G"),
        ("%DLQ%G", "%DLQ%N%G"),
        ("N%T", "N%T"),
        ("%RETRY%N%G", "%RETRY%N%G"),
        ("M%T", "N%M%T"),
        ("", ""),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ],
)
def test_wrap(resource: str, wrapped: str) -> None:
    assert wrap("N", resource) == wrapped
    assert wrap("", resource) == resource


@pytest.mark.parametrize(
    ("resource", "bare", "bare_of_n"),
    [
        ("N%T", "T", "T"),
        ("%RETRY%N%G", "%RETRY%G", "%RETRY%G"),
        ("%DLQ%M%G", "%DLQ%G", "%DLQ%M%G"),
        ("T", "T", "T"),
        ("%T", "%T", "%T"),
        ("NN%T", "T", "NN%T"),
        ("", "", ""),
        ("rmq_sys_a%b", "rmq_sys_a%b", "rmq_sys_a%b"),
    ],
)
def test_unwrap(resource: str, bare: str, bare_of_n: str) -> None:
    assert unwrap(resource) == bare
    assert unwrap(resource, "N") == bare_of_n


@given(
    st.from_regex(r"[a-zA-Z0-9_-]{1,9}", fullmatch=True),
    st.sampled_from(["", "%RETRY%", "%DLQ%"]),
    st.from_regex(r"[a-z0-9_-]{1,9}", fullmatch=True).filter(lambda name: not name.startswith("rmq_sys_")),
)
def test_round_trip(namespace: str, prefix: str, name: str) -> None:
    wrapped = wrap(namespace, prefix + name)
    assert unwrap(wrapped) == unwrap(wrapped, namespace) == prefix + name
    assert wrap(namespace, wrapped) == wrapped


@pytest.mark.parametrize(
    ("endpoint", "namespace"),
    [
        ("http://MQ_INST_123_abc.mq.example:80", "MQ_INST_123_abc"),
        ("MQ_INST_123_abc.mq.example:8080", "MQ_INST_123_abc"),
        ("MQ_INST_123_abc", ""),
        ("MQ_INST_123.mq.example", ""),
        ("127.0.0.1:9876", ""),
        ("", ""),
    ],
)
def test_namespace_in_an_endpoint(endpoint: str, namespace: str) -> None:
    assert namespace_of_endpoint(endpoint) == namespace
