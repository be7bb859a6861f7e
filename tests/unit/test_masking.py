"""Secrets are masked in every text that is shown."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
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


def test_masking_leaves_the_logging_of_the_program_alone():
    """No global of the user's program changes: neither the record factory nor the loggers of other packages."""
    code = (
        "import logging\nfactory = logging.getLogRecordFactory()\n"
        "from penstock.config.source import parse_options\nfrom penstock.masking import get_logger\n"
        "get_logger('penstock.x')\n"
        "print(logging.getLogRecordFactory() is factory, logging.getLoggerClass() is logging.Logger,"
        " logging.getLogger().filters, logging.getLogger('penstock').handlers)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True True [] []\n"


def test_every_module_logs_through_a_masked_logger():
    """Others configure the root logger or Penstock's parent logger, and log nothing by them."""
    source = Path(penstock.__file__).parent
    plain = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "logging.getLogger(" in path.read_text("utf-8")
    }
    levels_only = {"cli/__init__.py", "cli/top/__init__.py"}
    assert plain <= {"masking.py", "spark/driver_log.py", "spark/demo.py"} | levels_only
