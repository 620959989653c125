"""Secrets at rest: encrypted with a key that lies in a file of its own, readable by its owner only.

Signatures are made with the secret itself, so a hash will not do: the server must get it back. Who has both files, or
the process' memory, has the secrets; who has a backup of the user file alone has not.
"""

from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from pyromq import durable
from pyromq.auth.errors import AuthError

_OTHERS = 0o077


class Seal:
    """Encrypts and decrypts texts with the key in a file, which is made if it is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fernet = Fernet(_read_key(path) if path.exists() else _make_key(path))
        except (OSError, ValueError) as error:
            raise AuthError(f"cannot use the key file {path}: {error}") from None

    def close(self, secret: str) -> str:
        """The form that is stored."""
        return self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """The secret. Raises AuthError when it was sealed with another key, or changed."""
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except (InvalidToken, UnicodeError):
            raise AuthError(f"a stored secret does not belong to the key file {self._path}") from None


def check_private(path: Path) -> None:
    """Raises AuthError for a file that others than its owner may read or write."""
    mode = path.stat().st_mode
    if mode & _OTHERS:
        raise AuthError(f"{path} must be for its owner only, but its mode is {mode & 0o777:o}: chmod 600 it")


def _read_key(path: Path) -> bytes:
    check_private(path)
    return path.read_bytes().strip()


def _make_key(path: Path) -> bytes:
    with suppress(FileExistsError):  # made by another process meanwhile: both use that one
        durable.create_file(path, Fernet.generate_key() + b"\n")
    return _read_key(path)
