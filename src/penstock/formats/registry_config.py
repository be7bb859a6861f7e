"""WHERE a schema registry is and who we are to it, as one value whose repr shows no secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from penstock.errors import OptionError


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """Where a schema registry is and who we are to it. Times in seconds. Hashable: schemas are cached by it.

    A log-in inside an address is taken out of it, so that addresses can be shown.
    """

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    proxy: str | None = field(default=None, repr=False)
    timeout: float = 10.0
    retries: int = 5
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

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
            raise OptionError("schemaRegistry.url", None, "has addresses with different log-ins", "Use one for all")
        if logins and self.user is not None:
            what = "is given, and schemaRegistry.url has a log-in too"
            raise OptionError("schemaRegistry.basic.auth.user.info", None, what, "Keep one of them")
        if logins:
            user, password = logins.pop()
            object.__setattr__(self, "user", user)
            object.__setattr__(self, "password", password)
        if self.user is not None and self.bearer_token is not None:
            what = "is given, and a user's name too"
            raise OptionError("schemaRegistry.bearer.auth.token", None, what, "Keep one of them")
        if self.certificate_file is None and (self.key_file or self.key_password):
            what = "is missing, and a key for it is given"
            raise OptionError("schemaRegistry.ssl.certificate.location", None, what)
        if self.proxy is not None:
            without_login("schemaRegistry.proxy", self.proxy)


def without_login(option: str, url: str) -> tuple[str, tuple[str, str] | None]:
    """An address less the user and password in it, and these two. No error shows the address: it may hold them."""
    example = "Example: https://registry:8081"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OptionError(option, None, "is no address", example) from None
    if parts.scheme not in ("http", "https") or not host:
        raise OptionError(option, None, "must begin with http:// or https:// and a host's name", example)
    if parts.query or parts.fragment:
        raise OptionError(option, None, "must be an address without ? and #", example)
    if any(character <= " " or character == "\x7f" for character in url):
        raise OptionError(option, None, "has spaces or control characters in it", example)
    login = None
    if parts.username is not None:
        login = (unquote(parts.username), unquote(parts.password or ""))
    place = f"[{host}]" if ":" in host else host
    place += "" if port is None else f":{port}"
    return urlunsplit((parts.scheme, place, parts.path, "", "")), login
