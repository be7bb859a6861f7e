"""The options of a schema registry, named as in Confluent's clients, and the RegistryConfig that they make up."""

from __future__ import annotations

import json
import re

from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, hostname_check, http_proxy, milliseconds, number, text
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError, did_you_mean
from penstock.wire.transport.http_address import without_login
from penstock.wire.transport.tls import Tls

STRATEGIES = ("topic", "record", "topic-record")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADERS_EXAMPLE = '{"target-sr-cluster": "lsrc-12345"}'


def urls(name: str, value: str) -> tuple[str, ...]:
    """Addresses, separated by commas. Errors do not show them: they may contain a login."""
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found:
        raise OptionError(name, None, "names no registry", "Example: https://registry:8081")
    for url in found:
        without_login(name, url)
    return found


def user_info(name: str, value: str) -> tuple[str, str]:
    user, colon, password = value.strip().partition(":")
    if not colon or not user:
        raise OptionError(name, None, "must be user:password")
    return user, password


def secret(name: str, value: str) -> str:
    if not value.strip() or any(character < " " or character > "~" for character in value.strip()):
        raise OptionError(name, None, "is empty, or contains characters that an HTTP header cannot carry")
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
            raise OptionError(name, None, f"{header!r} is not the name of a header", f"Example: {_HEADERS_EXAMPLE}")
        if not isinstance(content, str) or not all(" " <= character <= "~" for character in content):
            raise OptionError(name, None, f"the value of {header!r} must be ASCII text")
    return tuple(given.items())


def strategy(name: str, value: str) -> str:
    """One of STRATEGIES, or the name of Confluent's class for it: `io.confluent....TopicRecordNameStrategy`."""
    wanted = value.strip().rpartition(".")[2].removesuffix("NameStrategy")
    wanted = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", wanted).lower()
    if wanted in STRATEGIES:
        return wanted
    raise OptionError(name, value, f"must be one of {', '.join(STRATEGIES)}", did_you_mean(wanted, STRATEGIES))


REGISTRY_OPTIONS = OptionTable(
    Option(
        "schemaRegistry.url",
        urls,
        None,
        "The address of the schema registry, `https://host:port`. Several addresses, separated by commas, are tried in "
        "turn. Apicurio's address ends with `/apis/ccompat/v7`.",
    ),
    Option(
        "schemaRegistry.basic.auth.user.info",
        user_info,
        None,
        "The login for HTTP basic authentication, as `user:password`.",
    ),
    Option(
        "schemaRegistry.bearer.auth.token",
        secret,
        None,
        "The token for HTTP bearer authentication.",
        "bearer_token",
    ),
    Option(
        "schemaRegistry.ssl.ca.location",
        text,
        None,
        "The PEM file of the certificate authorities to trust. All TLS files must exist on every executor. Default: "
        "the system's authorities.",
        "ca_file",
    ),
    Option(
        "schemaRegistry.ssl.certificate.location",
        text,
        None,
        "The PEM file with the client's certificate chain.",
        "certificate_file",
    ),
    Option(
        "schemaRegistry.ssl.key.location",
        text,
        None,
        "The PEM file with the client's private key. Default: the file of `schemaRegistry.ssl.certificate.location`.",
        "key_file",
    ),
    Option(
        "schemaRegistry.ssl.key.password",
        text,
        None,
        "The password of the client's private key.",
        "key_password",
    ),
    Option(
        "schemaRegistry.ssl.endpoint.identification.algorithm",
        hostname_check,
        "https" if Tls().check_hostname else "",
        "`https` checks the registry's host name against its certificate. Empty does not.",
        "check_hostname",
    ),
    Option(
        "schemaRegistry.proxy",
        http_proxy,
        None,
        "The HTTP proxy to the registry, as `http://host:port` or `http://user:password@host:port`. Proxies of the "
        "environment (`HTTPS_PROXY`) are not used.",
        "proxy",
    ),
    Option(
        "schemaRegistry.allow.plaintext",
        flag,
        "false",
        "Whether a login (user, token or a header with credentials) may be sent over `http://` to another machine. If "
        "false, that is an error. A registry without a login needs no TLS.",
        "allow_plaintext",
    ),
    Option(
        "schemaRegistry.timeout.ms",
        milliseconds(1),
        "10000",
        "The longest time in milliseconds that one request may take.",
        "timeout",
    ),
    Option(
        "schemaRegistry.retries",
        number(0, 100),
        "5",
        "The number of retries of a request that gets no response, or HTTP 429 or 5xx. The pauses between them grow.",
        "retries",
    ),
    Option(
        "schemaRegistry.headers",
        headers,
        None,
        f"Additional headers of each request, as JSON: `{_HEADERS_EXAMPLE}`.",
        "headers",
    ),
    Option(
        "subjectNameStrategy",
        strategy,
        "topic",
        "How the names of subjects are derived. `topic`: `<topic>-value` and `<topic>-key`. `record`: the full name of "
        "the record or message. `topic-record`: `<topic>-<record>`.",
    ),
)


def registry_config(values: OptionValues) -> RegistryConfig | None:
    """None if no registry is given."""
    given = [name for name in REGISTRY_OPTIONS if name in values.given]
    addresses = values["schemaRegistry.url"]
    if addresses is None:
        if given:
            raise OptionError(given[0], None, "has no effect without a registry", "Set schemaRegistry.url")
        return None
    user, password = values["schemaRegistry.basic.auth.user.info"] or (None, None)
    return RegistryConfig(urls=addresses, user=user, password=password, **values.fields(REGISTRY_OPTIONS))
