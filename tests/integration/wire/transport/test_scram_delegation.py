"""Delegation tokens: made by Kafka's own tool, and taken by a real broker in place of a password."""

from __future__ import annotations

import subprocess
import time

import pytest

from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed
from penstock.testing import EmbeddedKafka
from penstock.testing.distribution import get_distribution
from penstock.wire.cluster import Cluster

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def kafka():
    settings = {"delegation.token.secret.key": "a key of the brokers"}
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"reader": None}, settings=settings) as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture(scope="module")
def token(kafka, tmp_path_factory):
    """The id and the HMAC of a new token."""
    options = kafka.client_options(prefix="", mechanism="SCRAM-SHA-256")
    file = tmp_path_factory.mktemp("token") / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items() if name != "bootstrap.servers"))
    java = get_distribution()
    command = [java.java, "-cp", java.classpath(), "org.apache.kafka.tools.DelegationTokenCommand", "--create"]
    command += ["--bootstrap-server", kafka.bootstrap_servers, "--command-config", str(file)]
    made = subprocess.run(
        [*command, "--max-life-time-period", "-1"], capture_output=True, text=True, timeout=120, check=True
    )
    row = next(line for line in made.stdout.splitlines() if "User:reader" in line)
    token_id, hmac = row.split()[:2]
    await_token(kafka, token_id, hmac)
    return token_id, hmac


def await_token(kafka, token_id, hmac):
    """The controller answers before the broker has read of the token in the metadata log."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return topics(kafka, "SCRAM-SHA-256", f'username="{token_id}" password="{hmac}" tokenauth="true"')
        except AuthenticationFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def topics(kafka, mechanism, entries):
    login = {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": f"{MODULE} {entries};"}
    options = parse_options(kafka.client_options() | login | {"subscribe": "t"})
    return list(Cluster(options.client).metadata(("t",)).topics)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_takes_the_place_of_user_and_password(kafka, token, mechanism):
    entries = f'username="{token[0]}" password="{token[1]}" tokenauth="true"'
    assert topics(kafka, mechanism, entries) == ["t"]


@pytest.mark.parametrize("entries", ['password="{1}"', 'password="hush-wrong" tokenauth=true'])
def test_a_token_is_refused_as_a_user_and_with_another_hmac(kafka, token, entries):
    with pytest.raises(AuthenticationFailed, match="refused the login") as caught:
        topics(kafka, "SCRAM-SHA-256", f'username="{token[0]}" ' + entries.format(*token))
    assert "hush" not in str(caught.value)
    assert token[1] not in str(caught.value)
