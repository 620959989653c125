"""Servers with folders of users of their own: they know each other, and an administrator reaches all of them."""

import json
from pathlib import Path

from pyromq import aio
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.namesrv import NameServer, NamesrvConfig
from pyromq.protocol.bodies import AclEntry, AclInfo, AclPolicy
from pyromq.protocol.codes import ResponseCode
from tests.integration.security.secured import ALICE, AUTH, ROOT, Signer, options, run

INNER = {"inner_client_authentication_credentials": json.dumps({"accessKey": "servers", "secretKey": "servers-secret"})}
FIRST = {"init_authentication_user": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key})}
MAY_SEND = AclPolicy(entries=[AclEntry(resource="Topic:*", actions=["Pub"], decision="Allow")])


def test_users_are_made_on_all_servers_of_a_cluster(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = AUTH | INNER | FIRST
        flags = {"listen_port": "0", "kv_config_path": str(tmp_path / "namesrv" / "kv.json")}
        name_server = NameServer(NamesrvConfig.load(flags=flags | settings))
        await name_server.start()
        flags = {"listen_port": "0", "namesrv_addr": name_server.address, "store_path_root_dir": str(tmp_path / "b")}
        broker = Broker(BrokerConfig.load(flags=flags | settings))
        await broker.start()
        try:
            assert broker.config.broker_name in name_server.routes.brokers, "the broker signs its registration"
            async with aio.Admin(namesrv=name_server.address, **options(ROOT)) as admin:
                await admin.create_user(ALICE.access_key, ALICE.secret_key, cluster="DefaultCluster")
                await admin.create_acl(AclInfo(subject="User:alice", policies=[MAY_SEND]), cluster="DefaultCluster")
            async with aio.Producer("w", namesrv=name_server.address, **options(ALICE)) as producer:
                await producer.send(aio.Message("orders", b"signed"))
            for address in (name_server.address, broker.address):
                async with Signer(address, None) as nobody:
                    assert (await nobody.route("orders")).code in (
                        ResponseCode.NO_PERMISSION,
                        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    )
        finally:
            await broker.stop()
            await name_server.stop()

    run(scenario())


def test_a_broker_without_the_right_credentials_does_not_get_into_the_routes(tmp_path: Path) -> None:
    async def scenario() -> None:
        flags = {"listen_port": "0", "kv_config_path": str(tmp_path / "namesrv" / "kv.json")}
        name_server = NameServer(NamesrvConfig.load(flags=flags | AUTH | INNER))
        await name_server.start()
        wrong = json.dumps({"accessKey": "servers", "secretKey": "another-secret"})
        for number, own in enumerate(({}, {"inner_client_authentication_credentials": wrong})):
            store = str(tmp_path / f"b{number}")
            flags = {"listen_port": "0", "namesrv_addr": name_server.address, "store_path_root_dir": store}
            broker = Broker(BrokerConfig.load(flags=flags | own))
            await broker.start()
            assert not name_server.routes.brokers
            await broker.stop()
        await name_server.stop()

    run(scenario())
