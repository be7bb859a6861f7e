"""Kerberos tickets of this process: from a keytab, or from the user's ticket cache.

They are kept in the memory of the process, where the Kerberos library also keeps the tickets for brokers. Nothing is
written to the user's ticket cache or to a file, and every process of Spark has its own.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from penstock.masking import get_logger
from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.kerberos_errors import NO_TICKETS, code_of, explained
from penstock.wire.transport.keytab import NotAKeytab, principals_in
from penstock.wire.transport.oauth import LOGINS_KEPT, TokenRefused, TokenUnavailable

log = get_logger(__name__)

Result = TypeVar("Result")

RETRY_SECONDS = 10.0
"""After a renewal that failed while the old ticket is still valid."""

UNLIMITED = 10 * 3600.0
"""Seconds for which a ticket without an end is used before the next look."""

_MEMORY = "MEMORY:penstock"
_NO_KEYTAB = f"{_MEMORY}-no-keytab"
"""An empty keytab. Do not leave it out: the Kerberos library would use the default one, and write new tickets of it
into the user's cache."""

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]+:")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Credential:
    """A ticket-granting ticket."""

    handle: Any = field(repr=False, compare=False)
    """python-gssapi's Credentials."""
    principal: str
    source: str
    """Where it comes from, in words."""
    lifetime: float
    """Seconds left when it was acquired."""
    renews: bool
    """Whether Penstock can get the next one: it can with a keytab."""
    is_new: bool = True
    """Whether it was acquired for this login, and not taken from memory."""


@dataclass(slots=True)
class _Kept:
    """The ticket of one login. `pending` is there while a thread acquires the next one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    credential: Credential | None = None
    renew_at: float = 0.0
    expires_at: float = 0.0
    pending: Future[Credential] | None = None


class CredentialCache:
    """The tickets of this process. Any thread calls it."""

    def __init__(self, acquire: Callable[[KerberosLogin], Credential]) -> None:
        self._acquire = acquire
        self._inherited: object = None
        self.forget_all()

    def forget_all(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[KerberosLogin, _Kept] = {}

    def after_fork(self) -> None:
        """Start empty in the child: each process has tickets of its own."""
        # Not freed: that takes a lock of the Kerberos library, which another thread may have held during the fork.
        self._inherited = self._kept
        self.forget_all()

    def get(self, login: KerberosLogin, deadline: float) -> Credential:
        """A ticket that is valid now. Raises TokenUnavailable when the deadline (time.monotonic) passes before.

        A ticket that is due is renewed in the background, and used meanwhile.
        """
        kept = self._of(login)
        with kept.lock:
            now = time.monotonic()
            known = kept.credential if now < kept.expires_at else None
            if known is not None and now < kept.renew_at:
                return known
            if kept.pending is None:
                kept.pending = _in_background(lambda: self._renew(login, kept))
            pending = kept.pending
        if known is not None:
            return known
        try:
            return pending.result(max(0.0, deadline - now))
        except TimeoutError:
            raise TokenUnavailable(f"no Kerberos ticket {_whose(login)}: the KDC has not answered yet") from None

    def forget(self, login: KerberosLogin) -> None:
        """Drop the tickets of a login: the next one acquires new ones."""
        kept = self._of(login)
        with kept.lock:
            kept.credential, kept.expires_at = None, 0.0

    def _renew(self, login: KerberosLogin, kept: _Kept) -> Credential:
        """Called by a thread of its own."""
        now = time.monotonic()
        try:
            found = self._acquire(login)
        except Exception as error:
            with kept.lock:
                kept.pending = None
                if time.monotonic() < kept.expires_at:
                    kept.renew_at = time.monotonic() + RETRY_SECONDS
                    log.warning("the Kerberos ticket is not renewed yet: %s. The old one is still valid", error)
            raise
        with kept.lock:
            kept.pending = None
            kept.credential = replace(found, is_new=False)
            kept.expires_at, kept.renew_at = now + found.lifetime, now + login.renew_after(found.lifetime)
        return found

    def _of(self, login: KerberosLogin) -> _Kept:
        with self._lock:
            if login not in self._kept:
                while len(self._kept) >= LOGINS_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[login] = _Kept()
            return self._kept[login]


def acquire(login: KerberosLogin) -> Credential:
    """A new ticket: as in Java, of the ticket cache, else by the keytab."""
    if not login.use_ticket_cache:
        return _from_keytab(login)
    try:
        return _from_ticket_cache(login)
    except TokenRefused as of_cache:
        if not login.use_keytab:
            raise
        try:
            return _from_keytab(login)
        except NoKey:
            if login.keytab is not None:
                raise
            raise of_cache from None  # there need not be a default keytab


class NoKey(TokenRefused):
    """The keytab does not exist, or has no key of the principal."""


def _from_keytab(login: KerberosLogin) -> Credential:
    gssapi = package()
    path = None if login.keytab is None else login.keytab.removeprefix("FILE:")
    if path is not None and not _PREFIX.match(path):
        _check_readable(Path(path))
    cache = _memory_cache()
    store = {"ccache": cache}
    if path is not None:
        store["client_keytab"] = path if _PREFIX.match(path) else f"FILE:{path}"
    source = f"keytab {login.keytab}" if login.keytab else "the default client keytab"
    try:
        return _opened(login, store, source)
    except gssapi.exceptions.GSSError as error:
        if code_of(error) in NO_TICKETS:
            raise _no_key(login, path) from error
        raise explained(f"no Kerberos ticket {_whose(login)} by {source}", error) from error


def _from_ticket_cache(login: KerberosLogin) -> Credential:
    """A copy of the user's tickets, in memory: the library would add the tickets for brokers to the user's cache."""
    gssapi = package()
    source = f"ticket cache {login.ticket_cache}" if login.ticket_cache else "the default ticket cache"
    store = {"client_keytab": _NO_KEYTAB}
    if login.ticket_cache is not None:
        cache = login.ticket_cache
        store["ccache"] = cache if _PREFIX.match(cache) else f"FILE:{cache}"
    copy = {"client_keytab": _NO_KEYTAB, "ccache": _memory_cache()}
    try:
        users = _opened(login, store, source)
        users.handle.store(store={"ccache": copy["ccache"]}, usage="initiate", mech=gssapi.MechType.kerberos)
        return _opened(login, copy, source)
    except gssapi.exceptions.GSSError as error:
        if code_of(error) in NO_TICKETS:
            where = os.environ.get("KRB5CCNAME") if login.ticket_cache is None else None
            raise TokenRefused(
                f"no Kerberos ticket {_whose(login)} in {source}{f' ({where})' if where else ''} on "
                f"{socket.gethostname()}. Run kinit there, or name a keytab: keyTab in sasl.jaas.config"
            ) from error
        raise explained(f"no Kerberos ticket {_whose(login)} in {source}", error) from error


def _opened(login: KerberosLogin, store: dict[str, str], source: str) -> Credential:
    gssapi = package()
    name = None
    if login.principal is not None:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    handle = gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store)
    lifetime = handle.lifetime
    seconds = UNLIMITED if lifetime is None else float(lifetime)
    return Credential(handle, str(handle.name), source, seconds, store.get("client_keytab") != _NO_KEYTAB)


def _check_readable(path: Path) -> None:
    where = socket.gethostname()
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise NoKey(f"there is no keytab {path} on {where}. It must be on driver and executors") from None
    except OSError as error:
        raise NoKey(f"the keytab {path} on {where} cannot be read: {error.strerror}") from None


def _no_key(login: KerberosLogin, path: str | None) -> NoKey:
    if path is None or _PREFIX.match(path):
        return NoKey(f"no key {_whose(login)} in {path or 'the default client keytab (KRB5_CLIENT_KTNAME)'}")
    try:
        known = ", ".join(principals_in(Path(path))) or "no principal"
    except (OSError, NotAKeytab) as error:
        return NoKey(f"the keytab {path} cannot be read: {error}")
    return NoKey(f"the keytab {path} has no key {_whose(login)}. It has keys of {known}. Check the principal")


def _whose(login: KerberosLogin) -> str:
    return f"of {login.principal}" if login.principal else "of any principal"


def _memory_cache() -> str:
    """A cache of its own for each ticket. The library keeps it until the process ends: some kilobytes per renewal."""
    return f"{_MEMORY}-{os.getpid()}-{next(_numbers)}"


def package() -> Any:
    """python-gssapi. Raises TokenRefused."""
    try:
        import gssapi
    except (ImportError, OSError) as error:  # OSError: the Kerberos library does not load
        raise TokenRefused(
            f"python-gssapi is missing ({error}). Install it on driver and executors: pip install "
            '"penstock[kerberos]". On Linux it needs the Kerberos library: apt install gcc libkrb5-dev'
        ) from None
    return gssapi


def call_within(deadline: float, function: Callable[[], Result]) -> Result:
    """Call a function that asks the KDC. Raises TokenUnavailable after the deadline."""
    try:
        return _in_background(function).result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise TokenUnavailable("the KDC has not answered yet") from None


def _in_background(function: Callable[[], Result]) -> Future[Result]:
    """Call a function in a thread. The Kerberos library takes no deadline: it waits for a silent KDC for 27 s."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="penstock-kerberos", daemon=True).start()
    return outcome


CREDENTIALS = CredentialCache(acquire)
os.register_at_fork(after_in_child=CREDENTIALS.after_fork)
