"""AWS MSK by IAM: signatures as AWS's own signer and kafka-python's independent implementation make them, and where the
credentials come from. Without a network: the only service that answers is a server of this test."""

from __future__ import annotations

import base64
import json
import re
import time
from datetime import UTC, datetime
from urllib.parse import parse_qs, parse_qsl, urlsplit

import botocore.auth
import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from kafka.net.sasl.msk import AwsMskIamClient

from penstock.wire.transport import aws
from penstock.wire.transport.aws import AwsLogin, MskIamLogin, iam_payload, oauth_token
from penstock.wire.transport.oauth import TokenCache, TokenRefused, TokenUnavailable
from support.configs import oauth_login
from support.http_server import Answer, Server

HOST = "b-1.clicks.abc123.c2.kafka.eu-west-1.amazonaws.com"
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SIGNATURE = "1dd3487f904d1cfd6787103ef6ca261cefe6c48739df293a96da99cf65fdc176"
"""Of HOST at NOW with the keys in ENVIRONMENT, computed by kafka-python."""
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hush/+key"}


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No credentials but those of the test, and no metadata service."""
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    aws._source.cache_clear()
    yield
    aws._source.cache_clear()


@pytest.fixture
def frozen(monkeypatch):
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: NOW)


def payload(login: AwsLogin | None = None, host: str = HOST) -> dict[str, str]:
    parsed: dict[str, str] = json.loads(iam_payload(login or AwsLogin(), host))
    return parsed


@pytest.mark.parametrize("token", [None, "session/token=="])
def test_the_payload_is_signed_as_by_an_independent_implementation(monkeypatch, token):
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    ours = payload()
    theirs = AwsMskIamClient(HOST, *ENVIRONMENT.values(), "eu-west-1", token)
    theirs.timestamp, theirs.datestamp = ours["x-amz-date"], ours["x-amz-date"][:8]
    assert ours == json.loads(theirs.first_message()) | {"user-agent": "penstock"}
    assert "hush" not in json.dumps(ours)


def test_the_signature_of_a_fixed_time_never_changes(frozen):
    found = payload()
    assert found["x-amz-date"] == "20260304T050607Z"
    assert found["x-amz-credential"] == "AKIDEXAMPLE/20260304/eu-west-1/kafka-cluster/aws4_request"
    assert found["x-amz-signature"] == SIGNATURE


def test_the_token_for_oauthbearer_is_that_of_awss_signer(monkeypatch, frozen):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    theirs, _ = MSKAuthTokenProvider.generate_auth_token("eu-west-1")

    def query(token: str) -> tuple[str, dict[str, str]]:
        url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        return url.netloc, dict(parse_qsl(url.query))

    host, named = query(oauth_token({})[0])
    their_host, their_names = query(theirs)
    assert host == their_host
    assert named == their_names | {"User-Agent": "penstock"}


def test_a_token_for_oauthbearer_is_kept(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    cache = TokenCache()
    login = oauth_login(callback=aws.OAUTH_CALLBACK)
    assert len({cache.get(login, time.monotonic() + 60).text for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-x.c2.kafka-serverless.us-east-2.amazonaws.com", "us-east-2"),
        ("b-1.x.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("broker.internal", "ap-south-1"),
    ],
)
def test_the_region_is_in_the_brokers_name_else_in_the_environment(monkeypatch, host, region):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    assert payload(host=host)["x-amz-credential"].split("/")[2] == region


def test_a_profile_is_read_from_the_files_of_the_command_line(tmp_path):
    (tmp_path / "credentials").write_text("[other]\naws_access_key_id = AKIDOTHER\naws_secret_access_key = hush\n")
    assert payload(AwsLogin(profile="other"))["x-amz-credential"].startswith("AKIDOTHER/")
    with pytest.raises(TokenRefused, match=r"profile missing.*could not be found"):
        payload(AwsLogin(profile="missing"))


def test_a_role_is_assumed_once_and_its_credentials_are_kept(monkeypatch):
    server = Server()
    try:
        end = datetime.fromtimestamp(time.time() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = {"AccessKeyId": "AKIDROLE", "SecretAccessKey": "hush", "SessionToken": "st", "Expiration": end}
        body = "".join(f"<{name}>{value}</{name}>" for name, value in keys.items())
        for around in ("Credentials", "AssumeRoleResult", "AssumeRoleResponse"):
            body = f"<{around}>{body}</{around}>"
        server.answers["/"] = Answer(body.encode(), headers={"Content-Type": "text/xml", "Connection": "close"})
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        role = "arn:aws:iam::123456789012:role/reader"
        login = AwsLogin(role_arn=role, role_session_name="clicks", role_external_id="x-1")
        for _ in range(2):
            signed = payload(login)
            assert signed["x-amz-credential"].startswith("AKIDROLE/")
            assert signed["x-amz-security-token"] == "st"
        (request,) = server.requests
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        assert (form["Action"], form["RoleArn"]) == ("AssumeRole", role)
        assert (form["RoleSessionName"], form["ExternalId"]) == ("clicks", "x-1")
        assert re.search("Credential=AKIDEXAMPLE/", request.headers["authorization"])

        denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not yours</Message></Error></ErrorResponse>"
        server.answers["/"] = Answer(denied.encode(), 403, {"Content-Type": "text/xml", "Connection": "close"})
        with pytest.raises(TokenRefused, match=r"no AWS credentials of role arn:.*reader: .*AccessDenied.*not yours"):
            payload(AwsLogin(role_arn=role))
    finally:
        server.stop()


def test_the_default_chain_finds_the_containers_credentials_and_renews_them(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    server = Server()
    try:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/credentials")

        def serve(key: str, seconds: float) -> None:
            end = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            keys = {"AccessKeyId": key, "SecretAccessKey": "hush", "Token": "st", "Expiration": end}
            server.answers["/credentials"] = Answer(json.dumps(keys).encode(), headers={"Connection": "close"})

        serve("AKIDFIRST", 60)  # due at once: botocore renews ten minutes ahead
        assert payload()["x-amz-credential"].startswith("AKIDFIRST/")
        serve("AKIDSECOND", 3600)
        assert payload()["x-amz-credential"].startswith("AKIDSECOND/")
        asked = len(server.requests)
        assert payload()["x-amz-credential"].startswith("AKIDSECOND/")
        assert len(server.requests) == asked
    finally:
        server.stop()


def test_a_service_that_is_away_is_retriable(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(TokenUnavailable, match=r"no AWS credentials of role arn:.*Could not connect"):
        payload(AwsLogin(role_arn="arn:aws:iam::123456789012:role/reader"))


def test_missing_credentials_and_a_missing_region_are_named(monkeypatch):
    with pytest.raises(TokenRefused, match="AWS_DEFAULT_REGION"):
        payload(host="broker.internal")
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    aws._source.cache_clear()
    with pytest.raises(TokenRefused, match="no AWS credentials of profile default were found"):
        payload()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert payload(), "a failure is not kept"


def test_a_missing_package_is_named_with_the_extra_that_has_it(monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("botocore")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(TokenRefused, match=re.escape('pip install "penstock[aws]"')):
        payload()


def test_a_broker_that_answers_nothing_has_not_agreed():
    login = MskIamLogin(AwsLogin(), HOST)
    assert not login.is_done()
    login.receive(b"")
    assert login.is_done()
    assert not login.is_authenticated()
    login.receive(b'{"version":"2020_10_22","request-id":"1"}')
    assert login.is_authenticated()


def test_secrets_do_not_show():
    assert "hush" not in repr(AwsLogin(access_key_id="a", secret_access_key="hush", session_token="hush"))
