"""Settings about who may do what, the same on every server."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pyromq.auth.users.access import Credentials
from pyromq.remoting.hooks import RequestHook, Signing
from pyromq.settings.declaration import Settings, settings
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Secret, option

if TYPE_CHECKING:
    from pyromq.auth.gate import Gate
    from pyromq.auth.needs import Scene


@settings
class AuthSettings(Settings):
    """Authentication, authorisation, audit."""

    authentication_enabled: bool = option(False, "Serve only requests that a known user signed.")
    authorization_enabled: bool = option(
        False, "Serve only what rules allow their user; needs authentication. Off: every user may do everything."
    )
    acl_enable: bool = option(
        False, "Both of them with the accounts in plain_acl.yml, as RocketMQ 4 has it; it is re-read on change."
    )
    auth_config_path: Path | None = option(
        None, "Folder of users and rules (users.json, users.key); empty: `auth` beside the server's other files."
    )
    plain_acl_path: Path | None = option(
        None, "plain_acl.yml, or a folder of such files; empty: plain_acl.yml in that folder."
    )
    inner_client_authentication_credentials: Secret = option(
        "",
        'Who this server is to other servers, `{"accessKey":"…","secretKey":"…"}`; the same on all servers of a '
        "cluster, where it is a super user.",
    )
    init_authentication_user: Secret = option(
        "", 'A super user to create when there are no users yet, `{"username":"…","password":"…"}`.'
    )
    audit_log_path: Path | None = option(
        None, "Log of administrative and denied requests; empty: audit.log beside the users, with authentication."
    )
    audit_log_size: int = option(10 << 20, "Bytes after which it is rotated.", unit="bytes", minimum=1024)
    audit_log_files: int = option(10, "Rotated files that are kept.", minimum=0, maximum=1000)
    user_request_rate: int = option(
        0, "Requests of one user in a second; more are answered busy. 0: any number.", minimum=0
    )

    @property
    def is_authenticated(self) -> bool:
        """Whether only known users are served."""
        return self.authentication_enabled or self.acl_enable

    def check_auth(self) -> None:
        """Raise ConfigError for settings that contradict each other."""
        if self.authorization_enabled and not self.is_authenticated:
            raise ConfigError("authorizationEnabled needs authenticationEnabled: who may do what depends on who it is")
        self.inner_credentials()

    def inner_credentials(self) -> Credentials | None:
        """Raises ConfigError."""
        return _credentials(
            "innerClientAuthenticationCredentials", self.inner_client_authentication_credentials, _Inner
        )

    def signing(self) -> tuple[RequestHook, ...]:
        """What signs this server's own requests; nothing without credentials. Raises ConfigError."""
        credentials = self.inner_credentials()
        return () if credentials is None else (Signing(credentials.access_key, credentials.secret_key),)

    def first_user(self) -> Credentials | None:
        """Raises ConfigError."""
        return _credentials("initAuthenticationUser", self.init_authentication_user, _Init)

    def gate(self, folder: Path, scene: "Scene", clock: Callable[[], int]) -> "Gate | None":
        """What stands before the handlers, None when there is nothing to check and nothing to note.

        `folder` is where users are kept unless `authConfigPath` says otherwise; `clock` gives Unix milliseconds.
        Raises ConfigError and AuthError. Blocks.
        """
        self.check_auth()
        if not self.is_authenticated and self.audit_log_path is None:
            return None
        from pyromq.auth.gate import Gate  # noqa: PLC0415 - cryptography and YAML, which most starts do without

        return Gate(self, self.auth_config_path or folder, scene, clock)


class _Inner(msgspec.Struct, rename={"access_key": "accessKey", "secret_key": "secretKey"}):
    access_key: str
    secret_key: str


class _Init(msgspec.Struct, rename={"access_key": "username", "secret_key": "password"}):
    access_key: str
    secret_key: str


def _credentials(key: str, text: str, form: type[_Inner] | type[_Init]) -> Credentials | None:
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=form)
    except msgspec.MsgspecError:
        names = " and ".join(form.__struct_encode_fields__)
        raise ConfigError(f"{key} must be a JSON object with {names}") from None  # without the text: it is secret
    return Credentials(found.access_key, found.secret_key)
