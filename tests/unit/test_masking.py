"""What is shown holds no secret, in whatever words it stands."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import OptionError, PenstockError
from penstock.masking import is_secret, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SASL_SSL://user:pa/s@s@host:9092", "SASL_SSL://***@host:9092"),
        ("http://u:hush@one, http://v:hush@two", "http://***@one, http://***@two"),
        ('required username="me" password="hush \\"hush\\"";', 'required username="me" password="***";'),
        ("clientSecret='hush' scope='s'", "clientSecret='***' scope='s'"),
        ("host=h password=hush dbname=d", "host=h password=*** dbname=d"),
        ("?access_token=hush&x=1", "?access_token=***&x=1"),
        ("{'kafka.sasl.jaas.config': 'a password=\"hush\"', 'b': 1}", "{'kafka.sasl.jaas.config': '***', 'b': 1}"),
        ('{"client_secret": "hush", "b": 1}', '{"client_secret": "***", "b": 1}'),
        ("'Authorization': 'Basic aHVzaA=='", "'Authorization': 'Basic ***'"),
        ("x\n-----BEGIN PRIVATE KEY-----\nhush", "x\n-----BEGIN PRIVATE KEY----- *** "),
        ("-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nMII"),
        ("https://host/path: connection refused", "https://host/path: connection refused"),
        ("option kafka.ssl.key.password: is empty", "option kafka.ssl.key.password: is empty"),
    ],
)
def test_secrets_in_a_text_are_masked_and_nothing_else(text, shown):
    assert masked(text) == shown
    assert str(PenstockError(text)) == shown
    assert masked(shown) == shown


def test_a_hostile_text_costs_no_more_than_its_length():
    # Quadratic, the second would take an hour.
    for word in ("a", "password", "a://", "password='", "'password':", "-----BEGIN PRIVATE KEY-----", "secret."):
        assert masked(word * (300_000 // len(word)))


@pytest.mark.parametrize("name", ["kafka.sasl.jaas.config", "sasl.password", "ssl.keystore.key", "ssl.kye.password"])
def test_an_error_shows_no_value_of_a_secret_option(name):
    error = OptionError(name, "hush", "is wrong")
    assert is_secret(name)
    assert str(error) == f"option {name} = '***': is wrong"
    assert "hush" not in repr(pickle.loads(pickle.dumps(error)).__dict__)
