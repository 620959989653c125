"""From nothing to working credentials: the first user is made in a folder, all further ones over the network."""

import json
import stat
from pathlib import Path

from typer.testing import CliRunner

from pyromq.cli import app
from tests.integration.security.secured import run, secured


def invoke(*arguments: str, key_file: Path | None = None) -> tuple[int, str, str]:
    environ = {"ROCKETMQ_CLIENT_KEYFILE": str(key_file) if key_file is not None else ""}
    done = CliRunner().invoke(app, list(arguments), env=environ)
    return done.exit_code, done.stdout, done.stderr


def test_one_command_prints_credentials_that_work(tmp_path: Path) -> None:
    folder, key_file = tmp_path / "auth", tmp_path / "key"

    async def scenario() -> None:
        import asyncio  # noqa: PLC0415 - commands run in a thread beside the servers

        async with secured(tmp_path) as (server, _):
            broker = server.broker_address

            async def command(*arguments: str, with_key: bool = True) -> tuple[int, str, str]:
                where = ("-n", server.namesrv_address, "--json")
                return await asyncio.to_thread(
                    invoke, "admin", *arguments, *where, key_file=key_file if with_key else None
                )

            code, _, error = await command("listUser", "-b", broker, with_key=False)
            assert (code, "authentication is needed" in error) == (1, True)
            code, text, _ = await command("createUser", "-u", "root", "--folder", str(folder), with_key=False)
            assert code == 0
            made = json.loads(text)
            assert made["userType"] == "Super"
            key_file.write_text(f"AccessKey={made['accessKey']}\nSecretKey={made['secretKey']}\n")
            code, text, error = await command("createUser", "-u", "alice", "-b", broker)
            assert code == 0, error
            assert (code, json.loads(text)["userType"]) == (0, "Normal")
            assert (
                await command(
                    "createAcl",
                    "-s",
                    "User:alice",
                    "-r",
                    "Topic:a*,Group:g",
                    "-a",
                    "Sub",
                    "-d",
                    "Allow",
                    "-i",
                    "10.0.0.0/8",
                    "-b",
                    broker,
                )
            )[0] == 0
            code, text, _ = await command("listAcl", "-b", broker)
            assert [row["resource"] for row in json.loads(text)] == ["Topic:a*", "Group:g"]
            code, text, _ = await command("listUser", "-c", "DefaultCluster")
            assert [row["user"] for row in json.loads(text)] == ["alice", "pyromq-standalone", "root"]
            assert made["secretKey"] not in text
            assert (await command("updateUser", "-u", "alice", "-s", "disable", "-b", broker))[0] == 0
            code, text, _ = await command("getUser", "-u", "alice", "-b", broker)
            assert json.loads(text)[0]["status"] == "disable"
            assert (await command("deleteAcl", "-s", "User:alice", "-r", "Group:g", "-b", broker))[0] == 0
            code, text, _ = await command("getAcl", "-s", "User:alice", "-b", broker)
            assert [row["resource"] for row in json.loads(text)] == ["Topic:a*"]
            assert (await command("deleteUser", "-u", "alice", "-b", broker))[0] == 0
            code, _, error = await command("updateUser", "-u", "alice", "-s", "enable", "-b", broker)
            assert (code, "no user alice" in error) == (1, True)

    run(scenario())
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_the_second_user_of_a_folder_is_a_normal_one(tmp_path: Path) -> None:
    for name, kind in (("root", "Super"), ("alice", "Normal")):
        code, text, _ = invoke("admin", "createUser", "-u", name, "--folder", str(tmp_path / "auth"), "--json")
        assert (code, json.loads(text)["userType"]) == (0, kind)
    code, text, _ = invoke(
        "admin", "createUser", "-u", "bob", "-p", "bobs-secret-1", "--folder", str(tmp_path / "auth")
    )
    assert code == 0
    assert "bobs-secret-1" not in text


def test_a_development_certificate_and_the_settings_for_it(tmp_path: Path) -> None:
    code, text, _ = invoke("cert", str(tmp_path / "tls"), "--host", "localhost", "--host", "127.0.0.1")
    assert code == 0
    assert f"tls.server.certPath={tmp_path}/tls/server.pem" in text
    for name in ("ca.key", "server.key", "client.key"):
        assert stat.S_IMODE((tmp_path / "tls" / name).stat().st_mode) == 0o600
    code, _, error = invoke("cert", str(tmp_path / "tls"))
    assert (code, "exists already" in error) == (1, True)
    assert invoke("cert", str(tmp_path / "other"), "--host", "not a host, really")[0] == 1
