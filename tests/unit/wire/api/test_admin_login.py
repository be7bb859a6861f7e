"""kafka-python's clients with Penstock's logins, and those of other programs with their own."""

from __future__ import annotations

import pytest
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.plain import SaslMechanismPlain

from penstock.errors import AuthenticationFailed, BrokerUnavailable
from penstock.wire.api.admin_login import login_settings
from penstock.wire.transport.aws import AwsLogin
from penstock.wire.transport.security import MECHANISMS, Security
from support.configs import oauth_login

PASSWORD = Security("SASL_SSL", sasl_mechanism="PLAIN", sasl_username="me", sasl_password="hush")


def test_a_login_is_that_of_the_security_settings():
    settings = login_settings(PASSWORD)
    assert "hush" not in repr(settings)
    login = get_sasl_mechanism("PLAIN")(host="h", **settings)
    assert login.auth_bytes() == b"me\0me\0hush"
    login.receive(b"")
    assert login.is_done()
    assert login.is_authenticated()


def test_other_clients_of_the_process_keep_their_own():
    for _ in range(2):
        login_settings(PASSWORD)
    theirs = get_sasl_mechanism("PLAIN")(host="h", sasl_plain_username="u", sasl_plain_password="p")
    assert isinstance(theirs, SaslMechanismPlain)
    assert all(get_sasl_mechanism(name).is_penstocks for name in MECHANISMS)


def test_without_a_token_or_a_ticket_there_is_no_attempt(tmp_path):
    oauth = oauth_login(endpoint=f"file:{tmp_path / 'none'}")
    with pytest.raises(BrokerUnavailable, match="SASL OAUTHBEARER: there is no file"):
        login_settings(Security("SASL_SSL", sasl_mechanism="OAUTHBEARER", oauth=oauth))
    (tmp_path / "token").write_text("not a token!")
    oauth = oauth_login(endpoint=f"file:{tmp_path / 'token'}")
    with pytest.raises(AuthenticationFailed, match=r"SASL OAUTHBEARER: the content of .* is not an access token"):
        login_settings(Security("SASL_SSL", sasl_mechanism="OAUTHBEARER", oauth=oauth))


def test_the_error_of_a_step_is_one_of_kafka_pythons(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    security = Security("SASL_SSL", sasl_mechanism="AWS_MSK_IAM", aws=AwsLogin(profile="nobody"))
    host, settings = "b-1.clicks.x.c2.kafka.eu-west-1.amazonaws.com", login_settings(security)
    with pytest.raises(SaslAuthenticationFailedError, match="no AWS credentials of profile nobody"):
        get_sasl_mechanism("AWS_MSK_IAM")(host=host, **settings)
