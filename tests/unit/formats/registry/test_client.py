"""How the client handles answers that a real registry cannot be made to give: a test server gives them."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pickle
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from penstock.errors import RegistryError, RegistryRefused, RegistryUnavailable, SchemaNotFound, UnreadableSchema
from penstock.formats.registry import client as registry_module
from penstock.formats.registry import connection as registry_connection
from penstock.formats.registry.client import SchemaRegistry
from penstock.testing.certificates import Identity, make_identity
from penstock.testing.java import find_java
from penstock.wire.transport import http
from support.configs import registry_config
from support.http_server import WAIT, Answer, Server, answer

pytestmark = pytest.mark.usefixtures("fresh_schemas", "no_pauses")

SCHEMA = {"schema": '"string"'}
PASSWORD = "s3cret:with/odd@signs"


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_connection, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """`serve()` starts a server that knows schema 7; `serve(context)` one that speaks TLS."""
    started: list[Server] = []
    # Kept-alive connections hold a server's threads, so clients go first.
    opened: list[SchemaRegistry] = []

    def start(context: ssl.SSLContext | None = None) -> Server:
        started.append(Server(context))
        started[-1].answers["/schemas/ids/7"] = answer(SCHEMA)
        return started[-1]

    start.opened = opened  # type: ignore[attr-defined]
    yield start
    for each in opened:
        each.close()
    for server in started:
        server.stop()


@pytest.fixture
def ask(serve) -> Callable[..., SchemaRegistry]:
    """`ask(server, ...)` is a registry at the server, with these settings; closed by itself."""

    def make(*servers: Server, **settings: Any) -> SchemaRegistry:
        settings = {"urls": tuple(server.url for server in servers), "timeout": WAIT} | settings
        serve.opened.append(SchemaRegistry(registry_config(**settings)))
        return serve.opened[-1]

    return make


# Log-ins


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"user": "ann", "password": PASSWORD}, "Basic YW5uOnMzY3JldDp3aXRoL29kZEBzaWducw=="),
        ({"bearer_token": "t0ken"}, "Bearer t0ken"),
        ({"headers": (("X-Way", "in"),)}, None),
    ],
    ids=["basic", "bearer", "header"],
)
def test_every_request_carries_who_we_are(serve, ask, settings, header):
    server = serve()
    assert ask(server, **settings).schema(7).text == '"string"'
    [request] = server.requests
    assert request.headers.get("authorization") == header
    assert request.headers.get("x-way") == dict(settings.get("headers", ())).get("X-Way")


def test_a_log_in_may_stand_in_the_address(serve, ask):
    server = serve()
    url = f"http://ann:s3cret%3Awith%2Fodd%40signs@127.0.0.1:{server.port}/"
    ours = ask(urls=(url,))
    assert ours.schema(7).kind == "AVRO"
    assert server.requests[0].headers["authorization"] == "Basic YW5uOnMzY3JldDp3aXRoL29kZEBzaWducw=="
    with pytest.raises(SchemaNotFound) as missing:
        ours.schema(8)
    assert "s3cret" not in str(missing.value)
    assert missing.value.url == server.url


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_names_the_options_and_no_secret(serve, ask, status):
    server = serve()
    server.answers["/schemas/ids/7"] = answer({"error_code": status, "message": PASSWORD}, status)
    with pytest.raises(RegistryRefused, match=r"schemaRegistry\.basic\.auth\.user\.info") as refused:
        ask(server, user="ann", password=PASSWORD).schema(7)
    assert "s3cret" not in str(refused.value)
    assert len(server.requests) == 1


def test_a_redirection_is_not_followed(serve, ask):
    server, elsewhere = serve(), serve()
    server.answers["/schemas/ids/7"] = answer({}, 307, Location=f"{elsewhere.url}/schemas/ids/7")
    with pytest.raises(RegistryError, match="redirects"):
        ask(server, bearer_token="t0ken").schema(7)
    assert elsewhere.requests == []


# TLS


@dataclass
class Identities:
    server: Identity
    client: Identity
    locked_key: Path


@pytest.fixture(scope="module")
def identities(tmp_path_factory) -> Identities:
    folder = tmp_path_factory.mktemp("certificates")
    java = find_java()
    client = make_identity(folder, "client", java)
    key = serialization.load_pem_private_key(client.key_file.read_bytes(), None)
    locked = folder / "locked.pem"
    encryption = serialization.BestAvailableEncryption(b"letmein")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    # By name only: at its number the host name does not match.
    return Identities(make_identity(folder, "server", java, subject_alternative="dns:localhost"), client, locked)


@pytest.fixture
def tls_server(serve, identities) -> Server:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identities.server.key_file)
    context.load_verify_locations(identities.client.certificate_file)
    context.verify_mode = ssl.CERT_REQUIRED
    server = serve(context)
    server.url = server.url.replace("127.0.0.1", "localhost")
    return server


def trusted(identities: Identities, **more: Any) -> dict[str, Any]:
    mutual = {
        "ca_file": str(identities.server.certificate_file),
        "certificate_file": str(identities.client.certificate_file),
        "key_file": str(identities.client.key_file),
        "retries": 0,
    }
    return {name: value for name, value in (mutual | more).items() if value is not None}


def test_mutual_tls(tls_server, ask, identities):
    assert ask(tls_server, **trusted(identities)).schema(7).id == 7
    # The key in one file with the certificate, and a locked one.
    both = trusted(identities, certificate_file=str(identities.client.key_file), key_file=None, timeout=WAIT + 1)
    assert ask(tls_server, **both).schema(7).id == 7
    locked = trusted(identities, key_file=str(identities.locked_key), key_password="letmein")
    assert ask(tls_server, **locked).schema(7).id == 7
    assert len(tls_server.requests) == 3


def test_tls_with_somebody_unknown_names_the_options(tls_server, ask, identities):
    ours = ask(tls_server, **trusted(identities, ca_file=None))
    with pytest.raises(RegistryRefused, match=r"TLS failed: self.signed .*schemaRegistry\.ssl\.ca\.location"):
        ours.schema(7)


def test_without_a_certificate_that_is_asked_for_the_options_are_named(tls_server, ask, identities):
    ours = ask(tls_server, **trusted(identities, certificate_file=None, key_file=None))
    # Whether the alert or the end of the connection is seen first is up to the network.
    with pytest.raises((RegistryRefused, RegistryUnavailable), match=r"schemaRegistry\.ssl\.certificate\.location"):
        ours.schema(7)
    assert tls_server.requests == []


def test_a_host_by_another_name_is_refused_unless_names_do_not_count(tls_server, ask, identities):
    by_number = tls_server.url.replace("localhost", "127.0.0.1")
    with pytest.raises(RegistryRefused, match=r"TLS failed.*127\.0\.0\.1"):
        ask(urls=(by_number,), **trusted(identities)).schema(7)
    assert ask(urls=(by_number,), check_hostname=False, **trusted(identities)).schema(7).id == 7


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_key_that_does_not_open_is_an_error_and_no_question(ask, tls_server, identities, password):
    ours = ask(tls_server, **trusted(identities, key_file=str(identities.locked_key), key_password=password))
    with pytest.raises(RegistryError, match=r"cannot be loaded.*key\.password"):
        ours.schema(7)


# Proxies


def test_http_goes_through_a_proxy_that_knows_us(serve, ask):
    proxy = serve()
    proxy.proxy_login = "Basic Ym9iOnB3"
    proxy.answers["http://registry.invalid/schemas/ids/7"] = answer(SCHEMA)
    through = proxy.url.replace("//", "//bob:pw@")
    assert ask(urls=("http://registry.invalid",), proxy=through).schema(7).id == 7
    with pytest.raises(RegistryRefused, match=r"\(407\).*schemaRegistry\.proxy") as refused:
        ask(urls=("http://registry.invalid",), proxy=proxy.url.replace("//", "//eve:hunter2@")).schema(7)
    assert "hunter2" not in str(refused.value)


def test_https_goes_through_a_tunnel_that_sees_no_log_in(serve, ask, tls_server, identities):
    proxy = serve()
    proxy.tunnel = tls_server.port
    proxy.proxy_login = "Basic Ym9iOnB3"
    settings = trusted(identities, user="ann", password=PASSWORD)
    assert ask(tls_server, proxy=proxy.url.replace("//", "//bob:pw@"), **settings).schema(7).id == 7
    [request] = proxy.requests
    assert request.path == f"localhost:{tls_server.port}"
    assert "authorization" not in request.headers
    assert "proxy-authorization" not in tls_server.requests[0].headers
    with pytest.raises(RegistryRefused, match=r"\(407\).*schemaRegistry\.proxy"):
        ask(tls_server, proxy=proxy.url, **settings).schema(7)


# Trying again


@pytest.mark.parametrize(
    "bad",
    [
        Answer(b"", 429),
        Answer(b"{}", 503),
        answer({"error_code": 50001}, 500),
        Answer(b'{"sch', promised=100),
    ],
    ids=["429", "503", "500", "broken-off"],
)
def test_what_passes_is_tried_again(serve, ask, bad):
    server = serve()
    server.answers["/schemas/ids/7"] = [bad, bad, answer(SCHEMA)]
    assert ask(server, retries=2).schema(7).id == 7
    assert len(server.requests) == 3


def test_a_registry_may_ask_for_a_pause(serve, ask, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(http, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    server = serve()
    busy = [Answer(b"", 429, {"Retry-After": seconds}) for seconds in ("3", "86400", "Mon, 01 Jan 2035 00:00:00 GMT")]
    server.answers["/schemas/ids/7"] = [*busy, answer(SCHEMA)]
    ask(server).schema(7)
    assert slept[:2] == [3.0, 30.0]
    assert slept[2] < 1


def test_addresses_are_tried_in_turn(serve, ask, refused_port):
    busy, good = serve(), serve()
    busy.answers["/schemas/ids/7"] = Answer(b"", 503)
    urls = (f"http://127.0.0.1:{refused_port}", busy.url, good.url)
    assert ask(urls=urls, retries=0).schema(7).id == 7
    assert len(busy.requests) == len(good.requests) == 1


def test_a_registry_that_is_gone_is_told_with_all_tries(ask, refused_port):
    url = f"http://127.0.0.1:{refused_port}"
    with pytest.raises(RegistryUnavailable, match=r"schemaRegistry\.url") as gone:
        ask(urls=(url.replace("//", f"//ann:{'s3cret'}@"),), retries=2).schema(7)
    assert gone.value.history == (f"{url}: connection refused",) * 3
    assert "s3cret" not in str(gone.value)
    assert pickle.loads(pickle.dumps(gone.value)).history == gone.value.history


@pytest.mark.parametrize(
    "trickle",
    [
        Answer(b" " * 10_000, pause=0.02),
        Answer(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000 + b"\r\nContent-Length: 0\r\n\r\n", pause=0.02, head=False),
    ],
    ids=["body", "headers"],
)
def test_an_answer_that_trickles_ends_with_the_time(serve, ask, trickle, monkeypatch):
    server = serve()
    server.answers["/schemas/ids/7"] = trickle
    # A twelfth of the time passes from one look at the clock to the next, and no other: the first bytes come in time,
    # however busy the machine is. Without them it would have been no answer at all.
    clock = itertools.count(0, WAIT / 12)
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(RegistryUnavailable, match=r"took longer than 60 s"):
        ask(server, retries=0).schema(7)


def test_a_registry_that_says_nothing_ends_with_the_time(ask):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryUnavailable, match=r"no answer within 0\.2 s"):
            ask(urls=(url,), retries=0, timeout=0.2).schema(7)


# Answers that make no sense


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Answer(b"<html>"), "not a JSON object"),
        (Answer(b""), "not a JSON object"),
        (Answer(b'["schema"]'), "not a JSON object"),
        (Answer(b"[" * 100_000), "not a JSON object"),
        (Answer(b'{"schema": "\xff"}'), "not a JSON object"),
        (Answer(gzip.compress(b'{"schema": "x"}'), headers={"Content-Encoding": "gzip"}), "not a JSON object"),
        (answer({}), "'schema' is missing"),
        (answer({"schema": 7}), "'schema' is missing or of a wrong type"),
        (answer({"schema": "x", "schemaType": ["AVRO"]}), "'schemaType'"),
        (answer({"schema": "x", "schemaType": "XSD"}), "of type 'XSD'"),
        (answer({"schema": "x", "references": {}}), "'references'"),
        (answer({"schema": "x", "references": ["a"]}), "'references'"),
        (answer({"schema": "x", "references": [{"name": "a", "subject": "b", "version": True}]}), "'version'"),
        (answer({"message": "no such page"}, 404), "Check the path"),
        (answer({"error_code": [40403]}, 404), "Check the path"),
        (answer({"error_code": 42201}, 422), "HTTP 422"),
    ],
    ids=[
        *("html", "empty", "list", "deep", "no-utf8", "gzip", "no-schema", "number", "type-list", "type-unknown"),
        *("references-object", "references-text", "version-bool", "404-alone", "code-list", "422"),
    ],
)
def test_senseless_answers_are_errors_that_say_where(serve, ask, bad, said):
    server = serve()
    server.answers["/schemas/ids/7"] = bad
    with pytest.raises(RegistryError, match=said) as error:
        ask(server).schema(7)
    assert type(error.value) is (UnreadableSchema if "XSD" in said else RegistryError)
    assert server.url in str(error.value)
    assert len(server.requests) == 1


def test_an_answer_beyond_the_limit_is_not_read(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_connection, "RESPONSE_BYTES", 1 << 20)
    server = serve()
    padded = json.dumps(SCHEMA).encode()
    server.answers["/schemas/ids/7"] = Answer(padded + b" " * ((1 << 20) - len(padded)))
    assert ask(server).schema(7).id == 7
    registry_module.clear_schema_cache()
    server.answers["/schemas/ids/7"] = Answer(padded + b" " * ((8 << 20) - len(padded)))
    with pytest.raises(RegistryError, match="at most 1 MB"):
        ask(server).schema(7)


# Memory


def test_a_schema_is_remembered_and_an_unknown_one_only_for_a_while(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_module, "UNKNOWN_SECONDS", 3600.0)
    server = serve()
    ours = ask(server)
    assert not ours.has_cached(7)
    for _ in range(3):
        assert ours.schema(7).id == 7
        assert ours.has_cached(7)
        with pytest.raises(SchemaNotFound, match="no schema 8"):
            ours.schema(8)
    assert [request.path for request in server.requests] == ["/schemas/ids/7", "/schemas/ids/8"]
    monkeypatch.setattr(registry_module, "UNKNOWN_SECONDS", 0.0)
    server.answers["/schemas/ids/8"] = answer(SCHEMA)
    assert ours.schema(8).id == 8
    assert ours.schema(7).id == 7
    assert len(server.requests) == 3


def test_memory_has_an_end(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_module, "SCHEMAS_KEPT", 2)
    server = serve()
    server.answers |= {f"/schemas/ids/{number}": answer(SCHEMA) for number in range(4)}
    ours = ask(server)
    for number in (0, 1, 0, 2, 0, 1):
        ours.schema(number)
    # 1 had not been asked for the longest when 2 came.
    assert [int(request.path[-1]) for request in server.requests] == [0, 1, 2, 1]


def test_memory_has_an_end_in_bytes_too(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_module, "BYTES_KEPT", 250)
    server = serve()
    server.answers |= {f"/schemas/ids/{number}": answer({"schema": "x" * 100}) for number in range(3)}
    server.answers["/schemas/ids/9"] = answer({"schema": "x" * 1000})
    ours = ask(server)
    for number in (0, 1, 0, 1, 2, 1, 2, 0):
        ours.schema(number)
    assert [int(request.path[-1]) for request in server.requests] == [0, 1, 2, 0]
    server.requests.clear()
    for number in (9, 9, 0, 0):  # the last one is kept, however long it is
        ours.schema(number)
    assert [int(request.path[-1]) for request in server.requests] == [9, 0]


def test_threads_share_what_is_known(serve, ask):
    server = serve()
    server.answers |= {f"/schemas/ids/{number}": answer({"schema": str(number)}) for number in range(20)}
    ours = ask(server)
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda at: ours.schema(at % 20).text, range(400)))
    assert texts == [str(at % 20) for at in range(400)]
    asked = len(server.requests)
    assert asked < 200
    assert ask(server).schema(3).text == "3"
    assert len(server.requests) == asked


def test_connections_are_kept_and_closed(serve, ask):
    server = serve()
    server.answers["/schemas/ids/9"] = answer(SCHEMA)
    ours = ask(server)
    ours.schema(7)
    ours.schema(9)
    ours.close()
    with pytest.raises(SchemaNotFound):
        ours.schema(10)
    first, second, third = [request.client_port for request in server.requests]
    assert first == second != third


def test_a_fork_asks_over_a_connection_of_its_own(serve):
    server = serve()
    server.answers["/schemas/ids/9"] = answer(SCHEMA)
    code = (
        "import os, pickle, sys\nfrom penstock.formats.registry.client import SchemaRegistry\n"
        "ours = SchemaRegistry(pickle.loads(bytes.fromhex(sys.argv[1])))\nours.schema(7)\nchild = os.fork()\n"
        "if child == 0:\n    ours.schema(7)\n    ours.close()\n    os._exit(0)\n"
        "status = os.waitpid(child, 0)[1]\nours.schema(9)\nours.close()\nprint(status)"
    )
    config = pickle.dumps(registry_config((server.url,))).hex()
    ran = subprocess.run([sys.executable, "-c", code, config], capture_output=True, text=True, timeout=240)
    assert ran.stdout == "0\n", ran.stderr
    parent, child, again = [request.client_port for request in server.requests]
    assert parent == again != child


# References


def serve_subjects(server: Server, **subjects: tuple[str, list[str]]) -> None:
    """Subjects by name, each with its text and the subjects that it refers to."""
    for subject, (text, needed) in subjects.items():
        references = [{"name": f"N.{other}", "subject": other, "version": 1} for other in needed]
        found = {"id": 100, "subject": subject, "version": 1, "schema": text, "references": references}
        server.answers[f"/subjects/{subject}/versions/1?deleted=true"] = answer(found)
        server.answers[f"/subjects/{subject}/versions/latest"] = answer(found)


def test_what_is_needed_comes_once_and_before_what_needs_it(serve, ask):
    server = serve()
    serve_subjects(server, top=("t", ["left", "right"]), left=("l", ["base"]), right=("r", ["base"]), base=("b", []))
    found = ask(server).latest("top")
    assert found.references == (("N.base", "b"), ("N.left", "l"), ("N.right", "r"))
    assert len(server.requests) == 4


def test_a_circle_of_references_ends(serve, ask):
    server = serve()
    serve_subjects(server, one=("1", ["two"]), two=("2", ["one"]))
    assert dict(ask(server).latest("one").references) == {"N.one": "1", "N.two": "2"}


def test_a_chain_of_references_without_end_is_an_error(serve, ask):
    server = serve()
    serve_subjects(server, **{f"s{at}": ("x", [f"s{at + 1}"]) for at in range(100)})
    with pytest.raises(UnreadableSchema, match=r"latest version of subject 's0' .* more than 32 deep"):
        ask(server).latest("s0")
    assert len(server.requests) == 33


def test_references_as_deep_as_allowed_are_read(serve, ask):
    server = serve()
    serve_subjects(server, **{f"s{at}": (str(at), [f"s{at + 1}"]) for at in range(32)}, s32=("32", []))
    assert [text for _, text in ask(server).latest("s0").references] == [str(at) for at in range(32, 0, -1)]


def test_references_without_number_are_an_error(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_module, "REFERENCES_LIMIT", 20)
    server = serve()
    serve_subjects(server, top=("x", [f"s{at}" for at in range(40)]), **{f"s{at}": ("x", []) for at in range(40)})
    with pytest.raises(UnreadableSchema, match="more than 20 other schemas"):
        ask(server).latest("top")
    assert len(server.requests) == 21


def test_references_that_are_large_together_are_an_error(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_module, "REFERENCES_BYTES", 2 << 20)
    server = serve()
    text = "x" * (1 << 20)
    serve_subjects(server, top=("x", [f"s{at}" for at in range(9)]), **{f"s{at}": (text, []) for at in range(9)})
    with pytest.raises(UnreadableSchema, match="schemas of more than 2 MB"):
        ask(server).latest("top")
    assert len(server.requests) == 4


def test_references_that_take_too_long_are_an_error(serve, ask, monkeypatch):
    monkeypatch.setattr(registry_module, "REFERENCES_SECONDS", -1.0)
    server = serve()
    serve_subjects(server, top=("x", ["a"]), a=("x", []))
    with pytest.raises(RegistryError, match="only 0 of its references were loaded"):
        ask(server).latest("top")
    assert len(server.requests) == 1


def test_a_missing_reference_says_who_needs_it(serve, ask):
    server = serve()
    serve_subjects(server, top=("t", ["nowhere"]))
    with pytest.raises(SchemaNotFound, match=r"'N\.nowhere', version 1 of subject 'nowhere', to which latest"):
        ask(server).latest("top")


def test_the_process_environment_names_no_proxy_for_us(serve, ask, monkeypatch):
    server = serve()
    monkeypatch.setitem(os.environ, "HTTP_PROXY", "http://127.0.0.1:9")
    assert ask(server).schema(7).id == 7
