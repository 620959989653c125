"""The store's own way with plain records agrees with the protocol's, byte for byte, and walks over all the others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import pack_record, peek_record
from pyromq.store.log.put import PutMessage, PutStatus
from pyromq.store.log.walk import Walker
from tests.unit.store.storage import START, open_store

V4, V6 = pack_host(Host("10.1.2.3", 4567)), pack_host(Host("fe80::1", 4567))
INT = st.integers(-(1 << 31), (1 << 31) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
MESSAGES = st.builds(
    PutMessage,
    topic=st.sampled_from(["t", "订单", "x" * 127, "%RETRY%" + "y" * 150]),
    queue_id=st.integers(0, (1 << 31) - 1),
    body=st.binary(max_size=300),
    properties=st.sampled_from([b"", b"TAGS\x01a\x02", b"KEYS\x01k l\x02UNIQ_KEY\x01u", b"\xff\x01\x00\x02"]),
    sys_flag=st.sampled_from([0, sysflag.COMPRESSED, sysflag.COMMIT, sysflag.PREPARED, sysflag.ROLLBACK, 0x33]),
    flag=INT,
    born_timestamp=LONG,
    born_host=st.sampled_from([V4, V6]),
    store_host=st.sampled_from([None, V4, V6]),
    reconsume_times=INT,
    prepared_transaction_offset=LONG,
)


@settings(max_examples=15)
@given(messages=st.lists(MESSAGES, max_size=40))
def test_records_are_those_of_the_protocol(
    tmp_path_factory: pytest.TempPathFactory, messages: list[PutMessage]
) -> None:
    store = open_store(tmp_path_factory.mktemp("store"), mapped_file_size_commit_log=1 << 16)
    own_host = pack_host(Host("127.0.0.1", 10911))
    results = []
    for message in messages:
        result = store.put(message)
        assert result.status is PutStatus.PUT_OK, result.reason
        results.append(result)
        stored = store.commit_log.read(result.physical_offset, result.size)
        assert stored is not None
        assert bytes(stored) == pack_record(
            message.topic.encode(),
            message.body,
            message.properties,
            message.queue_id,
            result.queue_offset,
            result.physical_offset,
            START,
            message.store_host or own_host,
            message.born_timestamp,
            message.born_host,
            message.sys_flag,
            message.flag,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )
    walker = Walker(store.commit_log.files, 0, verify_crc=True)
    walked = list(walker)
    assert walker.fault is None
    assert walker.position == store.max_physical_offset
    assert [record.offset for record in walked] == [result.physical_offset for result in results]
    for record in walked:
        data = store.commit_log.read(record.offset, record.size)
        assert data is not None
        summary = peek_record(data, 0)
        assert (record.topic, record.queue_id, record.queue_offset) == (
            summary.topic,
            summary.queue_id,
            summary.queue_offset,
        )
        assert record.origin == summary.prepared_transaction_offset
        assert (record.sys_flag, record.store_timestamp) == (summary.sys_flag, summary.store_timestamp)
        assert record.file.raw[record.properties_at :][: len(summary.properties)] == summary.properties
    store.close()
