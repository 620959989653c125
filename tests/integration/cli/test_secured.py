"""The tools on a cluster that asks who they are."""

import json
from pathlib import Path

from typer.testing import CliRunner

from pyromq.cli import app
from tests.processes import standalone


def test_credentials_of_mqadmin_open_the_door(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    made = CliRunner().invoke(app, ["admin", "createUser", "-u", "root", "--folder", str(data / "auth"), "--json"])
    assert made.exit_code == 0, made.output
    user = json.loads(made.stdout)
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "tools.yml").write_text(f"accessKey: {user['accessKey']}\nsecretKey: {user['secretKey']}\n")
    with standalone(data, "--auth") as server:

        def run(*arguments: str, **environ: str) -> tuple[int, str, str]:
            done = CliRunner().invoke(app, arguments, env={"NAMESRV_ADDR": server["namesrv"], **environ})
            return done.exit_code, done.stdout, done.stderr

        for command in (["admin", "topicList"], ["send", "T", "-m", "x"], ["consume", "T", "-e"], ["top", "--once"]):
            code, printed, reason = run(*command)
            assert (code, printed) == (1, "")
            assert "authentication is needed" in reason
            assert len(reason.splitlines()) == 1
        known = {"ROCKETMQ_HOME": str(home)}
        assert run("admin", "updateTopic", "-c", "DefaultCluster", "-t", "T", **known)[0] == 0
        assert run("send", "T", "-m", "x", "--quiet", **known) == (0, "", "")
        assert run("consume", "T", "-e", "--quiet", **known) == (0, "x\n", "")
        assert run("top", "--once", "--json", **known)[0] == 0


def test_create_user_says_what_it_did(tmp_path: Path) -> None:
    """Name server and broker of `standalone` share their users: neither complains of what the other made."""
    data, keys = tmp_path / "data", tmp_path / "keys"

    def run(*arguments: str, **environ: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, ["admin", *arguments], env={"PYROMQ_USER_PASSWORD": "tell-nobody", **environ})
        return done.exit_code, done.stdout, done.stderr

    assert run("createUser", "-u", "root", "--folder", str(data / "auth")) == (0, "user root created (Super)\n", "")
    keys.write_text("AccessKey=root\nSecretKey=tell-nobody\n")
    with standalone(data, "--auth") as server:
        root = {"NAMESRV_ADDR": server["namesrv"], "ROCKETMQ_CLIENT_KEYFILE": str(keys)}
        cluster = ("-c", "DefaultCluster")
        code, printed, reason = run("createUser", "-u", "alice", *cluster, NAMESRV_ADDR=server["namesrv"])
        assert (code, printed) == (1, "")
        assert "authentication is needed" in reason
        assert "createUser --folder" in reason
        assert run("createUser", "-u", "alice", *cluster, **root) == (0, "user alice created (Normal)\n", "")
        assert (
            run("createAcl", "-s", "User:alice", "-r", "Cluster:*", "-a", "Get", "-d", "Allow", *cluster, **root)[0]
            == 0
        )
        alice = tmp_path / "alice"
        alice.write_text("AccessKey=alice\nSecretKey=tell-nobody\n")
        assert run("clusterList", **{**root, "ROCKETMQ_CLIENT_KEYFILE": str(alice)})[0] == 0
        code, printed, reason = run("createUser", "-u", "alice", *cluster, **root)  # the very same once more
        assert (code, printed) == (1, "")
        assert "alice exists already" in reason
