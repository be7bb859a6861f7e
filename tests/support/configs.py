"""Config values for tests: the defaults of the option tables, changed where a test needs something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.config.client import CLIENT_OPTIONS
from penstock.config.client import client_config as config_of
from penstock.config.formats import ColumnOptions, FormatOptions, default_formats
from penstock.config.oauth import OAUTH_OPTIONS
from penstock.config.producer import PRODUCER_OPTIONS, producer_config
from penstock.config.registry import REGISTRY_OPTIONS
from penstock.config.registry_config import RegistryConfig
from penstock.config.stream import StreamOptions, default_stream_options
from penstock.config.write_formats import WRITE_FORMAT_OPTIONS, WriteFormats, write_format_options
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.producer_config import ProducerConfig
from penstock.wire.transport.oauth import OAuthLogin


def client_config(*, bootstrap: tuple[tuple[str, int], ...], **changed: Any) -> ClientConfig:
    return replace(config_of(CLIENT_OPTIONS.parse({"kafka.bootstrap.servers": "h:1"})), bootstrap=bootstrap, **changed)


def stream_options(**changed: Any) -> StreamOptions:
    return replace(default_stream_options(), **changed)


def format_options(**changed: Any) -> FormatOptions:
    return replace(default_formats(), **changed)


def column_options(column: str, name: str) -> ColumnOptions:
    return replace(getattr(default_formats(), column), format=name)


def registry_config(urls: tuple[str, ...], **changed: Any) -> RegistryConfig:
    return RegistryConfig(urls=urls, **REGISTRY_OPTIONS.parse({}).fields(REGISTRY_OPTIONS) | changed)


def oauth_login(**changed: Any) -> OAuthLogin:
    return OAuthLogin(**OAUTH_OPTIONS.parse({}).fields(OAUTH_OPTIONS) | changed)


def producer_settings(**changed: Any) -> ProducerConfig:
    return replace(producer_config(PRODUCER_OPTIONS.parse({})), **changed)


def write_formats(**given: str) -> WriteFormats:
    """Options of typed writing; `__` in a name is a dot."""
    return write_format_options(
        WRITE_FORMAT_OPTIONS.parse({name.replace("__", "."): value for name, value in given.items()})
    )
