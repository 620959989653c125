"""Metrics and health are there without being asked for, on loopback, whatever else uses the port."""

import asyncio
import socket
import urllib.request
from pathlib import Path

import pytest

from pyromq.broker import httpserver as http
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.remoting.errors import ConnectError
from tests.integration.broker.servers import standalone
from tests.processes import free_port, port_of


async def page(address: str | None, path: str) -> str:
    assert address is not None

    def get() -> str:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


async def test_a_broker_with_default_settings_serves_metrics_and_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "DEFAULT_PORT", free_port())
    broker = Broker(BrokerConfig(listen_port=0, store_path_root_dir=tmp_path))
    await broker.start()
    try:
        assert broker.http_address == f"127.0.0.1:{http.DEFAULT_PORT}"
        assert "rocketmq_broker_permission" in await page(broker.http_address, "/metrics")
        assert await page(broker.http_address, "/health") == "ok\n"
    finally:
        await broker.stop()


async def test_a_default_port_that_is_taken_keeps_no_broker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(http, "DEFAULT_PORT", port)
        broker = Broker(BrokerConfig(listen_port=0, store_path_root_dir=tmp_path))
        await broker.start()
        try:
            assert await page(broker.http_address, "/health") == "ok\n"
            assert port_of(str(broker.http_address)) != port
            (said,) = (record.getMessage() for record in caplog.records if "httpPort" in record.getMessage())
            assert str(port) in said
            assert str(broker.http_address) in said
        finally:
            await broker.stop()
        with pytest.raises(ConnectError, match=f"cannot listen on 127.0.0.1:{port}: .* \\(for HTTP\\)"):
            await Broker(BrokerConfig(listen_port=0, http_port=port, store_path_root_dir=tmp_path)).start()


async def test_a_wide_broker_keeps_its_figures_to_itself_until_told_otherwise(tmp_path: Path) -> None:
    wide = {"host": "0.0.0.0", "insecure": "true", "http_port": "0"}  # noqa: S104 - what is tried
    async with standalone(tmp_path / "a", **wide) as (broker, _):
        assert str(broker.http_address).startswith("127.0.0.1:")
    async with standalone(tmp_path / "b", **wide, http_host="0.0.0.0") as (broker, _):  # noqa: S104 - said so
        assert str(broker.http_address).startswith("0.0.0.0:")
