"""Where credentials and the region come from: the caller, the environment, shared files, botocore.

The order is that of AWS's own tools: https://docs.aws.amazon.com/sdkref/latest/guide/
standardized-credentials.html. Keys of the environment and of shared files are read here. What
needs calls to other services (single sign-on, roles, web identities, containers, instances,
processes) is left to botocore, which is imported only then, runs in a thread and renews by itself.
"""

from __future__ import annotations

import asyncio
import configparser
import logging
import os
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_bedrock.sigv4 import Credentials

__all__ = ["CredentialChain", "SharedFiles", "region"]

REGION_ENV = ("AWS_REGION", "AWS_DEFAULT_REGION")
PROFILE_ENV = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
CONFIG_ENV, CONFIG_FILE = "AWS_CONFIG_FILE", "~/.aws/config"
CREDENTIALS_ENV, CREDENTIALS_FILE = "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"

BEFORE_KEYS = ("role_arn", "web_identity_token_file", "sso_session", "sso_start_url")
"""Settings of a profile that outrank keys in the same profile."""

WEB_IDENTITY_ENV = "AWS_WEB_IDENTITY_TOKEN_FILE"

_PROFILE_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_KEYS_ENV = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class _Place(NamedTuple):
    profile: str
    config: Path
    credentials: Path


class SharedFiles:
    """The profiles of the shared config and credentials files, read when first asked for."""

    def __init__(self) -> None:
        self._read: dict[_Place, dict[str, str]] = {}

    def profile(self, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return the settings of the profile in use; those of the credentials file win.

        Raises ProviderFailure (`auth`) for a named profile that neither file has, and for a file
        that cannot be read.
        """
        environ = os.environ if environ is None else environ
        name = _first(PROFILE_ENV, environ)
        place = _Place(
            name or "default",
            Path(os.path.expanduser(environ.get(CONFIG_ENV) or CONFIG_FILE)),
            Path(os.path.expanduser(environ.get(CREDENTIALS_ENV) or CREDENTIALS_FILE)),
        )
        if place not in self._read:
            self._read[place] = _load(place, name is not None)
        return self._read[place]

    def forget(self) -> None:
        """Have the files read again."""
        self._read.clear()


class CredentialChain:
    """Finds the keys that sign a provider's requests."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files
        self._source: Any = None  # botocore's credentials, which renew themselves
        self._source_profile: str | None = None
        self._finding = threading.Lock()

    async def get(self, environ: Mapping[str, str] | None = None) -> Credentials:
        """Return keys to sign with. Raises ProviderFailure (`auth`) without any."""
        environ = os.environ if environ is None else environ
        if found := _keys(environ, _KEYS_ENV):
            return found
        profile = self._files.profile(environ)
        outranked = WEB_IDENTITY_ENV in environ or any(name in profile for name in BEFORE_KEYS)
        if not outranked and (found := _keys(profile, _PROFILE_KEYS)):
            return found
        frozen = await asyncio.to_thread(self._of_botocore, _first(PROFILE_ENV, environ))
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def _of_botocore(self, profile: str | None) -> Any:
        """Find credentials once for all calls that wait, and renew them; it blocks.

        The lock is one of threads, since a client may serve several event loops.
        """
        with self._finding:
            if self._source is None or self._source_profile != profile:
                self._source = _botocore_credentials(profile)
                self._source_profile = profile
            source = self._source
        return _frozen(source)

    def forget(self, environ: Mapping[str, str] | None = None) -> bool:
        """Drop what may be renewed, and tell whether a new request could use others."""
        environ = os.environ if environ is None else environ
        if _keys(environ, _KEYS_ENV):
            return False
        self._files.forget()
        self._source = None
        return True


def region(files: SharedFiles, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the region to use; `None` where neither environment nor profile has one."""
    environ = os.environ if environ is None else environ
    return _first(REGION_ENV, environ) or files.profile(environ).get("region")


def _keys(settings: Mapping[str, str], names: tuple[str, str, str]) -> Credentials | None:
    key, secret, token = (settings.get(name) for name in names)
    return Credentials(key, secret, token or None) if key and secret else None


def _load(place: _Place, named: bool) -> dict[str, str]:
    name = place.profile
    titles = ("default", "profile default") if name == "default" else (f"profile {name}",)
    config, credentials = _parsed(place.config), _parsed(place.credentials)
    sections = [config[title] for title in titles if title in config]
    if named and not sections and name not in credentials:
        raise _refused(f'neither {place.config} nor {place.credentials} has a profile "{name}"')
    settings = {key: value for section in sections for key, value in section.items()}
    if name in credentials:
        if _PROFILE_KEYS[0] in credentials[name]:  # a token belongs to the key beside it
            settings = {k: v for k, v in settings.items() if k not in _PROFILE_KEYS}
        settings.update(credentials[name])
    return settings


def _parsed(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, default_section="", strict=False)
    try:
        parser.read_string(path.read_text("utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # the parser's own message quotes the line, which may hold a secret
        raise _refused(f"{path} cannot be read: {type(error).__name__}") from None
    return parser


def _botocore_credentials(profile: str | None) -> Any:
    try:
        session = import_module("botocore.session").Session(profile=profile)
    except ImportError:
        raise _refused(
            "no credentials for Bedrock: neither AWS_BEARER_TOKEN_BEDROCK nor AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY are set, and the profile has no keys; for single sign-on, "
            "roles, containers and instances, pip install 'swink-provider-bedrock[botocore]'"
        ) from None
    # it logs failures with their tracebacks; without a handler they end on the terminal
    logging.getLogger("botocore").addHandler(logging.NullHandler())
    try:
        credentials = session.get_credentials()
    except Exception as error:  # botocore's own tree, unknown without importing it
        raise _refused(f"botocore found no credentials: {error}") from error
    if credentials is None:
        raise _refused(
            "no credentials for Bedrock: neither the environment, a profile, a container nor an "
            "instance has any"
        )
    return credentials


def _frozen(credentials: Any) -> Any:
    try:
        return credentials.get_frozen_credentials()
    except Exception as error:  # botocore's own tree, unknown without importing it
        raise _refused(f"botocore could not renew the credentials: {error}") from error


def _refused(message: str) -> ProviderFailure:
    return ProviderFailure(
        Failure("request", kind=Kind.AUTH, code="no_credentials", message=message)
    )


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
