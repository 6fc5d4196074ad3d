"""Find credentials and the region: from the caller, the environment, shared files or botocore.

The order is the same as in the AWS SDKs: https://docs.aws.amazon.com/sdkref/latest/guide/
standardized-credentials.html. This module reads keys from environment variables and shared files.
botocore handles credentials that need calls to other services (single sign-on, roles, web
identities, containers, instances, processes); it is imported on demand and runs in a thread.
"""

from __future__ import annotations

import asyncio
import configparser
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from attrs import define, field

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Grant, Token, TokenHTTP, first_set
from swink_provider_bedrock.errors import EXPIRED
from swink_provider_bedrock.sigv4 import Credentials

__all__ = ["AccessKeys", "SharedFiles", "SharedKeys", "access_keys", "region"]

REGION_ENV = ("AWS_REGION", "AWS_DEFAULT_REGION")
PROFILE_ENV = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
CONFIG_ENV, CONFIG_FILE = "AWS_CONFIG_FILE", "~/.aws/config"
CREDENTIALS_ENV, CREDENTIALS_FILE = "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"

BEFORE_KEYS = ("role_arn", "web_identity_token_file", "sso_session", "sso_start_url")
"""Settings of a profile that take precedence over keys in the same profile."""

WEB_IDENTITY_ENV = "AWS_WEB_IDENTITY_TOKEN_FILE"

_PROFILE_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_KEYS_ENV = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class _Place(NamedTuple):
    profile: str
    config: Path
    credentials: Path


class SharedFiles:
    """The profiles of the shared config and credentials files, read on first use."""

    def __init__(self) -> None:
        self._read: dict[_Place, dict[str, str]] = {}

    def profile(self, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return the settings of the active profile; the credentials file takes precedence.

        Raises ProviderFailure (`auth`) for a named profile that neither file has, and for a file
        that cannot be read.
        """
        environ = os.environ if environ is None else environ
        place = _place(environ)
        if place not in self._read:
            self._read[place] = _load(place, first_set(PROFILE_ENV, environ) is not None)
        return self._read[place]


@define(frozen=True)
class AccessKeys(Token):
    """AWS access keys, with which requests are signed."""

    keys: Credentials = field(kw_only=True)

    @classmethod
    def of(cls, keys: Credentials, seconds: float = inf) -> AccessKeys:
        """Return access keys that expire in `seconds`."""
        return cls(keys.secret_key, seconds, keys=keys)


@define(frozen=True)
class SharedKeys(Grant):
    """Fetches the access keys of the active profile, or the access keys that botocore finds.

    `variables` are all environment variables whose names begin with `AWS_`, because botocore also
    reads them.
    """

    config: Path
    credentials: Path
    variables: tuple[tuple[str, str], ...] = field(repr=False)

    async def fetch(self, http: TokenHTTP) -> Token:
        """Read the files again, in case they have changed, or get the keys from botocore."""
        environ = dict(self.variables)
        name = first_set(PROFILE_ENV, environ)
        place = _Place(name or "default", self.config, self.credentials)
        profile = _load(place, name is not None)
        outranked = WEB_IDENTITY_ENV in environ or any(name in profile for name in BEFORE_KEYS)
        if not outranked and (found := _keys(profile, _PROFILE_KEYS)):
            return AccessKeys.of(found)
        return await asyncio.to_thread(_keys_of_botocore, name)

    def refuses(self, failure: Failure) -> bool:
        """Return True if the service rejects the keys, including a 403 for an expired session."""
        return super().refuses(failure) or (failure.status == 403 and failure.type in EXPIRED)


def access_keys(environ: Mapping[str, str] | None = None) -> AccessKeys | SharedKeys:
    """Return the access keys in the environment, or a grant that fetches keys elsewhere."""
    environ = os.environ if environ is None else environ
    if found := _keys(environ, _KEYS_ENV):
        return AccessKeys.of(found)
    variables = ((name, value) for name, value in environ.items() if name.startswith("AWS_"))
    place = _place(environ)
    return SharedKeys(place.config, place.credentials, tuple(sorted(variables)))


def region(files: SharedFiles, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the AWS region; `None` if neither the environment nor the profile contains one."""
    environ = os.environ if environ is None else environ
    return first_set(REGION_ENV, environ) or files.profile(environ).get("region")


def _keys(settings: Mapping[str, str], names: tuple[str, str, str]) -> Credentials | None:
    key, secret, token = (settings.get(name) for name in names)
    return Credentials(key, secret, token or None) if key and secret else None


def _place(environ: Mapping[str, str]) -> _Place:
    return _Place(
        first_set(PROFILE_ENV, environ) or "default",
        Path(os.path.expanduser(environ.get(CONFIG_ENV) or CONFIG_FILE)),
        Path(os.path.expanduser(environ.get(CREDENTIALS_ENV) or CREDENTIALS_FILE)),
    )


def _load(place: _Place, named: bool) -> dict[str, str]:
    name = place.profile
    titles = ("default", "profile default") if name == "default" else (f"profile {name}",)
    config, credentials = _parsed(place.config), _parsed(place.credentials)
    sections = [config[title] for title in titles if title in config]
    if named and not sections and name not in credentials:
        raise _refused(f'neither {place.config} nor {place.credentials} has a profile "{name}"')
    settings = {key: value for section in sections for key, value in section.items()}
    if name in credentials:
        if _PROFILE_KEYS[0] in credentials[name]:  # a token belongs to the key in the same profile
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
        # The parser's own message quotes the line, which may contain a secret.
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
    # botocore logs failures with tracebacks. Without a handler, these would be printed on the
    # terminal.
    logging.getLogger("botocore").addHandler(logging.NullHandler())
    try:
        credentials = session.get_credentials()
    except Exception as error:  # botocore's own exceptions, unknown without importing it
        raise _refused(f"botocore found no credentials: {error}", "token") from error
    if credentials is None:
        raise _refused(
            "no credentials for Bedrock: neither the environment, a profile, a container nor an "
            "instance has any"
        )
    return credentials


def _keys_of_botocore(profile: str | None) -> AccessKeys:
    credentials = _botocore_credentials(profile)
    try:
        frozen = credentials.get_frozen_credentials()
    except Exception as error:  # botocore's own exceptions, unknown without importing it
        raise _refused(f"botocore could not renew the credentials: {error}", "token") from error
    keys = Credentials(frozen.access_key, frozen.secret_key, frozen.token)
    expiry = getattr(credentials, "_expiry_time", None)  # it has no public equivalent
    seconds = inf if expiry is None else (expiry - datetime.now(UTC)).total_seconds()
    return AccessKeys.of(keys, seconds)


def _refused(message: str, code: str = "no_credentials") -> ProviderFailure:
    return ProviderFailure(Failure("request", kind=Kind.AUTH, code=code, message=message))
