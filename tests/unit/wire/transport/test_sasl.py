"""Logins against kafka-python's own mechanisms."""

from __future__ import annotations

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain

from penstock.wire.transport.sasl import OAuthBearerLogin, PlainLogin, new_login
from penstock.wire.transport.scram import ScramLogin
from penstock.wire.transport.security import Security


def test_plain_sends_user_and_password_as_kafka_python_does():
    theirs = SaslMechanismPlain(sasl_plain_username="größer", sasl_plain_password="p=,\1")
    ours = PlainLogin("größer", "p=,\1")
    assert ours.auth_bytes() == theirs.auth_bytes()
    assert not ours.is_done()
    ours.receive(b"")
    assert ours.is_done()
    assert ours.is_authenticated()


def test_plain_does_not_believe_an_answer_with_content():
    ours = PlainLogin("u", "p")
    ours.receive(b"welcome")
    assert ours.is_done()
    assert not ours.is_authenticated()


@pytest.mark.parametrize("extensions", [{}, {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}])
def test_oauthbearer_sends_token_and_extensions_as_kafka_python_does(extensions):
    class Provider(AbstractTokenProvider):
        def token(self):
            return "a.b.c"

        def extensions(self):
            return extensions

    theirs, ours = SaslMechanismOAuth(sasl_oauth_token_provider=Provider()), OAuthBearerLogin("a.b.c", extensions)
    assert ours.auth_bytes() == theirs.auth_bytes()
    for one in (theirs, ours):
        one.receive(b'{"status":"invalid_token"}')
        assert not one.is_done()
        assert one.auth_bytes() == b"\x01"
        one.receive(b"")
        assert one.is_done()


@pytest.mark.parametrize(("mechanism", "kind"), [("PLAIN", PlainLogin), ("SCRAM-SHA-512", ScramLogin)])
def test_the_settings_choose_the_login(mechanism, kind):
    security = Security("SASL_SSL", sasl_mechanism=mechanism, sasl_username="u", sasl_password="p")
    assert isinstance(new_login(security, "h", None, 0.0), kind)
