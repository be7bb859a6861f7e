"""The address of a schema registry and the login to it, as one value whose repr shows no secret."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.errors import OptionError
from penstock.wire.transport.http_address import check_proxy, sends_plaintext, without_login
from penstock.wire.transport.tls import Tls

_LOGIN_HEADER = re.compile(r"auth|cookie|token|secret|key", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """The address of a schema registry and the login to it. Times are in seconds. Hashable: it is the key of the schema
    cache.

    A login inside an address moves to `user` and `password`, so that addresses can be shown.
    """

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool
    proxy: str | None = field(default=None, repr=False)
    timeout: float
    retries: int
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    allow_plaintext: bool
    """Whether a login may cross a network unencrypted."""

    def __post_init__(self) -> None:
        logins = set()
        cleaned = []
        for url in self.urls:
            address, login = without_login("schemaRegistry.url", url)
            cleaned.append(address.rstrip("/"))
            if login is not None:
                logins.add(login)
        if not cleaned:
            raise OptionError("schemaRegistry.url", None, "names no registry", "Example: https://registry:8081")
        object.__setattr__(self, "urls", tuple(cleaned))
        if len(logins) > 1:
            raise OptionError("schemaRegistry.url", None, "has addresses with different logins", "Use one for all")
        if logins and self.user is not None:
            what = "is set, and schemaRegistry.url contains a login too"
            raise OptionError("schemaRegistry.basic.auth.user.info", None, what, "Keep one of them")
        if logins:
            user, password = logins.pop()
            object.__setattr__(self, "user", user)
            object.__setattr__(self, "password", password)
        if self.user is not None and self.bearer_token is not None:
            what = "is set, and a user name too"
            raise OptionError("schemaRegistry.bearer.auth.token", None, what, "Keep one of them")
        if self.certificate_file is None and (self.key_file or self.key_password):
            what = "is missing, and its key is set"
            raise OptionError("schemaRegistry.ssl.certificate.location", None, what)
        if self.proxy is not None:
            check_proxy("schemaRegistry.proxy", self.proxy)
        self._check_plaintext()

    def _check_plaintext(self) -> None:
        logs_in = self.user is not None or self.bearer_token is not None
        logs_in = logs_in or any(_LOGIN_HEADER.search(name) for name, _ in self.headers)
        unsafe = [url for url in self.urls if sends_plaintext(url)]
        if logs_in and unsafe and not self.allow_plaintext:
            raise OptionError(
                "schemaRegistry.url",
                unsafe[0],
                "would send the login unencrypted over the network",
                "Use https://. Where the network is trusted, set schemaRegistry.allow.plaintext to true",
            )

    @property
    def tls(self) -> Tls:
        return Tls(
            check_hostname=self.check_hostname,
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
            key_password=self.key_password,
        )
