"""Offset ids and unique ids, with the values that other clients compute."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.ids import UniqueIdGenerator, offset_message_id, parse_offset_message_id
from pyromq.protocol.records.host import Host, pack_host, unpack_host

# An IPv4 address in IPv6 clothes is written as the 4 bytes it is, so it does not come back as it was.
ips = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str).filter(lambda ip: not ip.startswith("::ffff:"))
hosts = st.builds(Host, ips, st.integers(0, 65535))


@pytest.mark.parametrize(
    ("ip", "port", "offset", "expected"),
    [
        ("10.0.0.1", 10911, 123456, "0A00000100002A9F000000000001E240"),
        ("2001:db8::1", 10911, 123456, "20010DB800000000000000000000000100002A9F000000000001E240"),
        ("192.168.0.1", 10911, 123456, "C0A8000100002A9F000000000001E240"),
        ("192.168.1.5", 10911, 1234567, "C0A8010500002A9F000000000012D687"),
        ("::ffff:10.0.0.1", 10911, 123456, "0A00000100002A9F000000000001E240"),
    ],
)
def test_offset_id_values(ip: str, port: int, offset: int, expected: str) -> None:
    assert offset_message_id(ip, port, offset) == expected


@given(hosts, st.integers(0, 2**63 - 1))
def test_offset_id_round_trip(host: Host, offset: int) -> None:
    assert parse_offset_message_id(offset_message_id(*host, offset)) == (host, offset)
    assert parse_offset_message_id(offset_message_id(*host, offset).lower()) == (host, offset)


@given(hosts)
def test_host_round_trip(host: Host) -> None:
    assert unpack_host(pack_host(host)) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0A",
        "Z" * 32,
        "0A00000100002A9F000000000001E24",
        "0A" + " " * 30,
        "0A00000100002A9FF00000000001E240",
        "é" * 32,
    ],
)
def test_bad_offset_ids(text: str) -> None:
    with pytest.raises(MessageError, match="offset message id"):
        parse_offset_message_id(text)


@pytest.mark.parametrize("host", [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", 2**31)])
def test_bad_hosts(host: tuple[str, int]) -> None:
    with pytest.raises(MessageError):
        pack_host(host)


def test_host_bytes_need_a_known_length() -> None:
    with pytest.raises(MessageError, match="not 5"):
        unpack_host(b"12345")


class Clock:
    def __init__(self, year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> None:
        self.now = round(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000)

    def __call__(self) -> int:
        return self.now


# P-88
def test_unique_id_value() -> None:
    clock = Clock(2023, 11, 1)
    clock.now += 1_234_567
    generate = UniqueIdGenerator("10.0.0.9", 4321, 0x18B4AAC2, clock, zone=UTC)
    for _ in range(42):
        generate()
    assert generate() == "0A00000910E118B4AAC20012D687002A"
    v6 = UniqueIdGenerator("2001:db8::9", 4321 + 65536, 0x18B4AAC2, clock, zone=UTC)
    assert v6() == "20010DB800000000000000000000000910E118B4AAC20012D6870000"
    negative = UniqueIdGenerator("192.168.0.1", 0x1234, 0x18B4AAC2 - 2**32, clock, zone=UTC)
    assert negative() == "C0A80001123418B4AAC20012D6870000"


def month_ms(unique_id: str) -> int:
    """The milliseconds since the month began that an id says."""
    return int(unique_id[-12:-4], 16)


def test_unique_ids_rebase_at_the_turn_of_a_month() -> None:
    clock = Clock(2024, 2, 29, 23, 59, 59)
    generate = UniqueIdGenerator("10.0.0.9", 1, 1, clock, zone=UTC)
    day = 86_400_000
    assert month_ms(generate()) == 29 * day - 1000
    clock.now += 1000
    assert month_ms(generate()) == 0
    clock.now += 31 * day - 1
    assert month_ms(generate()) == 31 * day - 1
    clock.now = Clock(2024, 12, 31).now
    assert month_ms(generate()) == 30 * day


def test_clock_set_back_across_the_turn_of_a_month() -> None:
    clock = Clock(2024, 3, 1)
    generate = UniqueIdGenerator("10.0.0.9", 1, 1, clock, zone=UTC)
    clock.now -= 999_999
    assert month_ms(generate()) == 0
    clock.now -= 1
    assert month_ms(generate()) == 29 * 86_400_000 - 1_000_000


def test_months_begin_at_local_midnight_whatever_the_season() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    clock = Clock(2024, 3, 31, 12)
    generate = UniqueIdGenerator("10.0.0.9", 1, 1, clock, zone=berlin)
    assert month_ms(generate()) == clock.now - (Clock(2024, 3, 1).now - 3_600_000)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine stands in Berlin, where clocks changed on 2024-03-31."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_this_machine_is_the_default(berlin: None) -> None:
    clock = Clock(2024, 3, 31, 12)
    generate = UniqueIdGenerator("10.0.0.9", 1, 1, clock)
    assert month_ms(generate()) == clock.now - (Clock(2024, 3, 1).now - 3_600_000)
    clock.now = Clock(2024, 3, 31, 21, 59, 59).now
    assert month_ms(generate()) == 31 * 86_400_000 - 3_600_000 - 1000
    clock.now += 1000
    assert month_ms(generate()) == 0


def test_counter_wraps_and_ids_stay_distinct() -> None:
    clock = Clock(2024, 7, 17)
    generate = UniqueIdGenerator("10.0.0.9", 1, 1, clock, zone=UTC)
    ids = {generate() for _ in range(65536)}
    assert len(ids) == 65536
    clock.now += 1
    wrapped = generate()
    assert wrapped.endswith("0000")
    assert wrapped not in ids
