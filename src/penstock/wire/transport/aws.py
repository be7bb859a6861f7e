"""AWS MSK with IAM: mechanism AWS_MSK_IAM, and access tokens of AWS for OAUTHBEARER. botocore finds the credentials and
signs; it is an optional package.

Both logins are a request that is signed and never sent: the broker, or AWS behind it, checks the signature.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from penstock.wire.transport.oauth import TokenRefused, TokenUnavailable

OAUTH_CALLBACK = f"{__name__}:oauth_token"
EXPIRES = 900
"""Seconds for which a signature is valid: what AWS recommends."""

_ACTION = "kafka-cluster:Connect"
_SERVICE = "kafka-cluster"
_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_PAYLOAD_VERSION = "2020_10_22"
_INSTALL = 'botocore is missing. Install it on driver and executors: pip install "penstock[aws]"'


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """Where credentials come from: a profile, or a role that is assumed, or else botocore's default chain (environment,
    files, container, machine). Hashable: credentials are kept by it."""

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str | None = None
    role_external_id: str | None = None
    sts_region: str | None = None
    access_key_id: str | None = None
    """Of the user who assumes the role. None: by the default chain."""
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


JAAS_ENTRIES = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "role_external_id",
    "awsStsRegion": "sts_region",
    "awsRoleAccessKeyId": "access_key_id",
    "awsRoleSecretAccessKey": "secret_access_key",
    "awsRoleSessionToken": "session_token",
}
"""The entries of AWS's Java module, and the fields that they fill."""


def aws_login(entries: Mapping[str, str]) -> AwsLogin:
    return AwsLogin(**{JAAS_ENTRIES[name]: value for name, value in entries.items() if name in JAAS_ENTRIES})


class MskIamLogin:
    """One login by AWS_MSK_IAM: a signed payload, and an answer that names the request."""

    def __init__(self, login: AwsLogin, host: str) -> None:
        self._message = iam_payload(login, host)
        self._answer: bytes | None = None

    def auth_bytes(self) -> bytes:
        return self._message

    def receive(self, auth_bytes: bytes) -> None:
        self._answer = auth_bytes

    def is_done(self) -> bool:
        return self._answer is not None

    def is_authenticated(self) -> bool:
        return bool(self._answer)


def iam_payload(login: AwsLogin, host: str) -> bytes:
    """The message of AWS_MSK_IAM. Raises TokenRefused or TokenUnavailable."""
    found = _BROKER.search(host)
    url = _signed_url(login, f"https://{host}/", found.group(1) if found else _default_region(login))
    signed = {name.lower(): value for name, value in parse_qsl(urlsplit(url).query)}
    payload = {"version": _PAYLOAD_VERSION, "host": host, "user-agent": "penstock", **signed}
    return json.dumps(payload, separators=(",", ":")).encode()


def oauth_token(entries: Mapping[str, str]) -> tuple[str, float]:
    """An access token for OAUTHBEARER, and the Unix time at which it expires: the user's function in `oauth`."""
    login = aws_login(entries)
    region = _default_region(login)
    now = time.time()
    url = _signed_url(login, f"https://kafka.{region}.amazonaws.com/", region)
    url += "&" + urlencode({"User-Agent": "penstock"})
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("="), now + EXPIRES


def _signed_url(login: AwsLogin, url: str, region: str) -> str:
    try:
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest
    except ImportError:
        raise TokenRefused(_INSTALL) from None
    request = AWSRequest(method="GET", url=url, params={"Action": _ACTION})
    SigV4QueryAuth(_credentials(login), _SERVICE, region, expires=EXPIRES).add_auth(request)
    signed: str = request.prepare().url
    return signed


def _default_region(login: AwsLogin) -> str:
    session = _session(login.profile)
    from botocore.exceptions import BotoCoreError

    try:
        region = session.get_config_variable("region")
    except BotoCoreError as error:  # there is no such profile
        raise TokenRefused(f"the AWS region is not known: {error}") from error
    if not region:
        raise TokenRefused(
            "the AWS region is not known: set AWS_DEFAULT_REGION in the environment of driver and executors, or a "
            "region in the profile"
        )
    return str(region)


def _credentials(login: AwsLogin) -> Any:
    """Credentials that are valid now, as one frozen value."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from botocore.exceptions import ConnectionError as Unreachable

    who = f"role {login.role_arn}" if login.role_arn else f"profile {login.profile or 'default'}"
    try:
        return _source(login).get_frozen_credentials()
    except (HTTPClientError, Unreachable) as error:
        raise TokenUnavailable(f"no AWS credentials of {who}: {error}") from error
    except (BotoCoreError, ClientError) as error:
        raise TokenRefused(f"no AWS credentials of {who}: {error}") from error


@functools.lru_cache(maxsize=100)
def _source(login: AwsLogin) -> Any:
    """botocore's credentials, which renew themselves. Kept: the chain may ask the machine's metadata service."""
    from botocore.credentials import AssumeRoleCredentialFetcher, Credentials, DeferredRefreshableCredentials

    session = _session(login.profile)
    if login.access_key_id and login.secret_access_key:
        own = Credentials(login.access_key_id, login.secret_access_key, login.session_token)
    else:
        own = session.get_credentials()
    if own is None:
        raise TokenRefused(
            f"no AWS credentials of profile {login.profile or 'default'} were found: not in the environment, not in "
            "the files of the AWS command line, and not from the container or machine of this process"
        )
    if login.role_arn is None:
        return own
    named = {"RoleSessionName": login.role_session_name, "ExternalId": login.role_external_id}
    region = login.sts_region or session.get_config_variable("region")
    fetcher = AssumeRoleCredentialFetcher(
        functools.partial(session.create_client, region_name=region),
        own,
        login.role_arn,
        extra_args={name: value for name, value in named.items() if value},
    )
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


def _session(profile: str | None) -> Any:
    try:
        from botocore.session import Session
    except ImportError:
        raise TokenRefused(_INSTALL) from None
    return Session(profile=profile)


os.register_at_fork(after_in_child=_source.cache_clear)
