"""Servers with folders of users of their own: they know each other, and an administrator reaches all of them."""

import json
from pathlib import Path

from pyromq import aio
from pyromq.auth.rules import Action
from pyromq.broker.broker import Broker
from pyromq.broker.cluster.registration import Registration
from pyromq.broker.config import BrokerConfig
from pyromq.namesrv import NameServer, NamesrvConfig
from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.namesrv import (
    AddWritePermOfBrokerHeader,
    GetBrokerMemberGroupHeader,
    GetTopicsByClusterHeader,
    RegisterBrokerHeader,
    UnregisterBrokerHeader,
    WipeWritePermOfBrokerHeader,
)
from tests.integration.security.secured import ALICE, AUTH, ROOT, Signer, options, rule, run, secured, users

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


def test_rights_on_a_cluster_do_not_reach_the_brokers_of_another(tmp_path: Path) -> None:
    users(tmp_path, alice=[rule("Cluster:Foo", Action.GET | Action.LIST | Action.UPDATE | Action.DELETE)])

    async def scenario() -> None:
        async with secured(tmp_path) as (server, broker), Signer(server.namesrv_address, ALICE) as alice:
            identity = broker.part(Registration).identity
            cluster, name, address = identity.cluster, identity.name, identity.address
            async with Signer(server.namesrv_address, ROOT) as root:

                async def routes() -> bytes:
                    return bytes((await root.call(RequestCode.GET_BROKER_CLUSTER_INFO)).body) + bytes(
                        (await root.route("TBW102")).body
                    )

                before = await routes()
                for claimed, own in ((cluster, ResponseCode.NO_PERMISSION), ("Foo", ResponseCode.NAME_TAKEN)):
                    registrations = [
                        RegisterBrokerHeader(
                            broker_name=name, broker_addr=at, cluster_name=claimed, ha_server_addr="10.6.6.6:10912",
                            broker_id=number, compressed=False, body_crc32=0,
                        )
                        for at, number in ((address, 0), ("10.6.6.6:10911", 0), ("10.6.6.6:10911", 7))
                    ]  # fmt: skip
                    for header in registrations:
                        assert (await alice.call(RequestCode.REGISTER_BROKER, header)).code == own
                    leave = UnregisterBrokerHeader(
                        broker_name=name, broker_addr=address, cluster_name=claimed, broker_id=0
                    )
                    assert (await alice.call(RequestCode.UNREGISTER_BROKER, leave)).code == own
                denied = [
                    (RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerHeader(broker_name=name)),
                    (RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerHeader(broker_name=name)),
                    (RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterHeader(cluster=cluster)),
                ]
                for code, asked in denied:
                    assert (await alice.call(code, asked)).code == ResponseCode.NO_PERMISSION
                members = GetBrokerMemberGroupHeader(cluster_name="Foo", broker_name=name)
                answer = await alice.call(RequestCode.GET_BROKER_MEMBER_GROUP, members)
                assert address.encode() not in bytes(answer.body)
                assert await routes() == before
                # What is the user's own is not in the way of all that.
                mine = RegisterBrokerHeader(
                    broker_name="foo-1", broker_addr="10.6.6.6:10911", cluster_name="Foo", broker_id=0,
                    ha_server_addr="10.6.6.6:10912", compressed=False, body_crc32=0,
                )  # fmt: skip
                assert (await alice.call(RequestCode.REGISTER_BROKER, mine)).code == ResponseCode.SUCCESS
                wipe = WipeWritePermOfBrokerHeader(broker_name="foo-1")
                assert (await alice.call(RequestCode.WIPE_WRITE_PERM_OF_BROKER, wipe)).code == ResponseCode.SUCCESS

    run(scenario())
