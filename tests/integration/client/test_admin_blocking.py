"""`pyromq.Admin`: the admin client for threads."""

import inspect
import threading
from pathlib import Path

import pytest

import pyromq
import pyromq.aio
from pyromq import Admin, Message, NoRouteError, Producer, ServiceStateError
from tests.integration.client.clusters import standalone_beside


def test_every_call_of_the_asyncio_client_exists_for_threads() -> None:
    wanted = {
        name
        for name, member in inspect.getmembers(pyromq.aio.Admin, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert len(wanted) > 70
    for name in wanted:
        method = getattr(Admin, name)
        assert not inspect.iscoroutinefunction(method), name
        assert inspect.signature(method) == inspect.signature(getattr(pyromq.aio.Admin, name)), name


def test_threads_share_an_admin_client(tmp_path: Path) -> None:
    # P-10
    with standalone_beside(tmp_path) as server, Admin(namesrv=server.namesrv_address) as admin:
        topics = [f"t{number}" for number in range(8)]
        threads = [threading.Thread(target=admin.create_topic, args=(topic,), kwargs={"queues": 1}) for topic in topics]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(topics) <= (admin.topic_configs())["broker-a"].topic_config_table.keys()
        with Producer("pg", namesrv=server.namesrv_address) as producer:
            sent = producer.send(Message("fresh", b"x", keys=["k"]))
            assert producer.view_message("fresh", sent.message_id).body == b"x"
        assert admin.query_message("fresh", "k")[0].message_id == sent.message_id
        assert admin.name_servers() == (server.namesrv_address,)
        with pytest.raises(NoRouteError):
            admin.topic_route("unheard-of")


def test_a_closed_admin_client_says_so(tmp_path: Path) -> None:
    # P-21
    with standalone_beside(tmp_path) as server:
        admin = Admin(namesrv=server.namesrv_address)
        with pytest.raises(ServiceStateError):
            admin.topics()
        with admin:
            assert "TBW102" in admin.topics()
        admin.close()
        with pytest.raises(ServiceStateError):
            admin.topics()
    assert not [thread for thread in threading.enumerate() if thread.name == "pyromq-loop"]
