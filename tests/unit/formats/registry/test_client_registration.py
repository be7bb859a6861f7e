"""How a registry answers to a schema: registered, refused, unknown."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest

from penstock.errors import RegistryError, RegistryRefused, SchemaNotFound, SchemaRefused
from penstock.formats.registry.client import SchemaRegistry
from support.configs import registry_config
from support.http_server import WAIT, Answer, Server, answer

PATH = "/subjects/shop%2Forders-value"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def ours(server: Server) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry_config((server.url,), timeout=WAIT, retries=0)) as opened:
        yield opened


def test_W2_a_schema_is_posted_under_its_subject(server: Server, ours: SchemaRegistry) -> None:
    server.answers[f"{PATH}/versions"] = answer({"id": 7})
    server.answers[PATH] = answer({"id": 8, "subject": "shop/orders-value", "version": 1})
    assert ours.register("shop/orders-value", "PROTOBUF", "text") == 7
    assert ours.id_of("shop/orders-value", "AVRO", '"string"') == 8
    assert [json.loads(request.body) for request in server.requests] == [
        {"schema": "text", "schemaType": "PROTOBUF"},
        {"schema": '"string"'},
    ]
    assert server.requests[0].headers["content-type"] == "application/vnd.schemaregistry.v1+json"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (answer({"error_code": 409, "message": "field x has no default"}, 409), "field x has no default"),
        (answer({"error_code": 42201, "message": "not Avro"}, 422), "is not valid: not Avro"),
        (Answer(b"<html>", 409), "HTTP 409"),
        (Answer(b'{"message": 5}', 422), "HTTP 422"),
    ],
)
def test_W2_a_refusal_has_the_subject_and_the_registrys_words(
    server: Server, ours: SchemaRegistry, given: Answer, says: str
) -> None:
    server.answers[f"{PATH}/versions"] = given
    with pytest.raises(SchemaRefused, match="subject 'shop/orders-value'") as caught:
        ours.register("shop/orders-value", "AVRO", '"string"')
    assert says in str(caught.value)
    assert caught.value.status == given.status
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_W2_a_schema_that_is_not_there_is_not_found(server: Server, ours: SchemaRegistry) -> None:
    server.answers[PATH] = answer({"error_code": 40403, "message": "Schema not found"}, 404)
    with pytest.raises(SchemaNotFound, match="autoRegisterSchemas is false"):
        ours.id_of("shop/orders-value", "AVRO", '"string"')


def test_W2_a_user_who_may_not_register_is_told_so(server: Server, ours: SchemaRegistry) -> None:
    server.answers[f"{PATH}/versions"] = Answer(b"", 403)
    with pytest.raises(RegistryRefused, match="may not register a schema under subject"):
        ours.register("shop/orders-value", "AVRO", '"string"')


def test_an_answer_without_an_id_is_invalid(server: Server, ours: SchemaRegistry) -> None:
    server.answers[f"{PATH}/versions"] = answer({"id": "seven"})
    with pytest.raises(RegistryError, match="'id' is missing or of a wrong type"):
        ours.register("shop/orders-value", "AVRO", '"string"')
