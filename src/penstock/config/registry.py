"""The options of a schema registry, named as Confluent's clients name them, and the names of its subjects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from penstock.config.option import Option, flag, milliseconds, number, one_of, text
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError, did_you_mean
from penstock.wire.transport.http_address import check_proxy, without_login

__all__ = ["REGISTRY_OPTIONS", "RegistryConfig", "registry_config", "subject_name"]

STRATEGIES = ("topic", "record", "topic-record")
_PREFIX = "schemaRegistry."
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADERS_EXAMPLE = '{"target-sr-cluster": "lsrc-12345"}'


def urls(name: str, value: str) -> tuple[str, ...]:
    """Addresses with commas between them. Errors do not show them: they may hold a log-in."""
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found:
        raise OptionError(name, None, "names no registry", "Example: https://registry:8081")
    for url in found:
        without_login(name, url)
    return found


def proxy(name: str, value: str) -> str:
    check_proxy(name, value.strip())
    return value.strip()


def user_info(name: str, value: str) -> tuple[str, str]:
    user, colon, password = value.strip().partition(":")
    if not colon or not user:
        raise OptionError(name, None, "must be user:password")
    return user, password


def secret(name: str, value: str) -> str:
    if not value.strip() or any(character < " " or character > "~" for character in value.strip()):
        raise OptionError(name, None, "is empty, or has characters in it that no header can carry")
    return value.strip()


def headers(name: str, value: str) -> tuple[tuple[str, str], ...]:
    try:
        given = json.loads(value)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise OptionError(name, None, "must be a JSON object", f"Example: {_HEADERS_EXAMPLE}")
    for header, content in given.items():
        if not _HEADER_NAME.fullmatch(header):
            raise OptionError(name, None, f"{header!r} is no name of a header", f"Example: {_HEADERS_EXAMPLE}")
        if not isinstance(content, str) or not all(" " <= character <= "~" for character in content):
            raise OptionError(name, None, f"the value of {header!r} must be a text in ASCII")
    return tuple(given.items())


def strategy(name: str, value: str) -> str:
    """One of ours, or one of Confluent's by its class: `io.confluent....TopicRecordNameStrategy`."""
    wanted = value.strip().rpartition(".")[2].removesuffix("NameStrategy")
    wanted = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", wanted).lower()
    if wanted in STRATEGIES:
        return wanted
    raise OptionError(name, value, f"must be one of {', '.join(STRATEGIES)}", did_you_mean(wanted, STRATEGIES))


REGISTRY_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "schemaRegistry.url",
            urls,
            None,
            "The schema registry, `https://host:port`; several with commas between them are tried in turn. Apicurio's "
            "ends with `/apis/ccompat/v7`.",
        ),
        Option("schemaRegistry.basic.auth.user.info", user_info, None, "Log-in: `user:password`."),
        Option("schemaRegistry.bearer.auth.token", secret, None, "A token to log in with instead."),
        Option(
            "schemaRegistry.ssl.ca.location",
            text,
            None,
            "PEM file of the CAs to trust (default: the system's). All TLS files must be there on every executor.",
        ),
        Option("schemaRegistry.ssl.certificate.location", text, None, "PEM file with the client's certificate chain."),
        Option(
            "schemaRegistry.ssl.key.location",
            text,
            None,
            "PEM file with its private key (default: in the same file).",
        ),
        Option("schemaRegistry.ssl.key.password", text, None, "The password of that key."),
        Option(
            "schemaRegistry.ssl.endpoint.identification.algorithm",
            lambda name, value: value.strip() and one_of("https")(name, value),
            "https",
            "`https` checks the registry's host name against its certificate; empty does not.",
        ),
        Option(
            "schemaRegistry.proxy",
            proxy,
            None,
            "An HTTP proxy on the way to the registry: `http://host:port`, or `http://user:password@host:port`. The "
            "proxies of the environment (`HTTPS_PROXY`) are not used.",
        ),
        Option(
            "schemaRegistry.allow.plaintext",
            flag,
            "false",
            "Whether a log-in (user, token, or a header that is one) may be sent over `http://` to another machine. By "
            "default that is refused. A registry without log-in needs no TLS.",
        ),
        Option("schemaRegistry.timeout.ms", milliseconds(1), "10000", "How long one request may take."),
        Option(
            "schemaRegistry.retries",
            number(0, 100),
            "5",
            "How often a request is made again if there is no answer, or HTTP 429 or 5xx; with growing pauses.",
        ),
        Option(
            "schemaRegistry.headers",
            headers,
            None,
            f"More headers for each request, as JSON: `{_HEADERS_EXAMPLE}`.",
        ),
        Option(
            "subjectNameStrategy",
            strategy,
            "topic",
            "How subjects are called: `topic` is `<topic>-value` and `<topic>-key`, `record` the full name of the "
            "record or message, `topic-record` is `<topic>-<record>`.",
        ),
    )
}

_FIELDS = {
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.key.location": "key_file",
    "ssl.key.password": "key_password",
    "bearer.auth.token": "bearer_token",
    "proxy": "proxy",
    "timeout.ms": "timeout",
    "retries": "retries",
    "headers": "headers",
    "allow.plaintext": "allow_plaintext",
}


def registry_config(values: Mapping[str, Any]) -> RegistryConfig | None:
    """Out of parsed options; None if there is no registry among them."""
    given = [name for name in REGISTRY_OPTIONS if name in values]
    addresses = values.get(f"{_PREFIX}url")
    if addresses is None:
        if given:
            raise OptionError(given[0], None, "has no effect without a registry", "Set schemaRegistry.url")
        return None
    user, password = values.get(f"{_PREFIX}basic.auth.user.info", (None, None))
    fields = {field: values[_PREFIX + name] for name, field in _FIELDS.items() if _PREFIX + name in values}
    algorithm = values.get(f"{_PREFIX}ssl.endpoint.identification.algorithm", "https")
    return RegistryConfig(addresses, user, password, check_hostname=algorithm == "https", **fields)


def subject_name(strategy: str, topic: str, column: str, record_name: str | None = None) -> str:
    """The subject of a topic's key or value. `record_name` is the full name of an Avro record or a Protobuf message."""
    if strategy == "topic":
        return f"{topic}-{column}"
    if not record_name:
        raise OptionError(
            "subjectNameStrategy", strategy, f"needs the name of the {column}'s record", f"Set {column}Subject"
        )
    return record_name if strategy == "record" else f"{topic}-{record_name}"
