"""TLS settings as one value, and the handshake: for brokers, token endpoints and schema registries."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field

from penstock.wire.transport.key_store import KEY_STORE, TRUST_STORE, load_key, load_trusted, private_file, store_type

TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""By their names in Java. Older versions are insecure."""

TLS13_SUITES = frozenset(
    {
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)


class CipherRefused(ssl.SSLError):
    """The handshake chose a cipher suite that the user's list does not have."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Trusted CAs, the client's certificate, protocols and cipher suites. Frozen, hashable and picklable."""

    check_hostname: bool = True
    ca_file: str | None = None
    """PEM, JKS or PKCS12."""
    ca_type: str | None = None
    """By the user. None: the file's content says."""
    ca_password: str | None = field(default=None, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    """PEM, JKS or PKCS12: the client's certificate chain, and its private key unless `key_file` has that."""
    certificate_type: str | None = None
    certificate_password: str | None = field(default=None, repr=False)
    """Of a JKS or PKCS12 store. `key_password` is of the private key."""
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    """Certificate chain and private key as text."""
    key_password: str | None = field(default=None, repr=False)
    versions: tuple[str, ...] = tuple(TLS_VERSIONS)
    cipher_suites: tuple[str, ...] = ()
    """OpenSSL's names; empty for its default."""

    def context(self) -> ssl.SSLContext:
        """Raises OSError if a file cannot be loaded: KeyStoreError or ssl.SSLError, mostly."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        allowed = [version for name, version in TLS_VERSIONS.items() if name in self.versions]
        context.minimum_version, context.maximum_version = min(allowed), max(allowed)
        context.check_hostname = self.check_hostname
        if older := [name for name in self.cipher_suites if name not in TLS13_SUITES]:
            context.set_ciphers(":".join(older))
        self._load_trusted(context)
        self._load_certificate(context)
        return context

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        if self.ca_file is None and self.ca_pem is None:
            context.load_default_certs()
            return
        # Like Java: what the user trusts ends the chain, also an authority that another one has signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.ca_pem is not None:
            context.load_verify_locations(cadata=self.ca_pem)
        if self.ca_file is not None:
            if store_type(self.ca_file, self.ca_type, self.ca_password is not None, TRUST_STORE) == "PEM":
                context.load_verify_locations(cafile=self.ca_file)
            else:
                context.load_verify_locations(cadata=load_trusted(self.ca_file, self.ca_password))

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        file, password = self.certificate_file, self.certificate_password
        if file is not None:
            if store_type(file, self.certificate_type, password is not None, KEY_STORE) == "PEM":
                self._load_key(context, file, self.key_file)
                return
            text, opened = load_key(file, password, self.key_password), True
        elif self.key_pem:
            text, opened = self.key_pem, False
        else:
            return
        with private_file(text) as name:
            if opened:
                context.load_cert_chain(name)
            else:
                self._load_key(context, name, None)

    def _load_key(self, context: ssl.SSLContext, certificate_file: str, key_file: str | None) -> None:
        # A function even without a password: otherwise OpenSSL asks for an encrypted key's password on the terminal.
        context.load_cert_chain(certificate_file, key_file, lambda: self.key_password or "")

    def connect(self, plain: socket.socket, host: str, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Do the handshake over a connected socket, within its time-out. Closes the socket if that fails."""
        try:
            connected = (context or self.context()).wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
        try:
            self.check_suite(connected)
        except CipherRefused:
            connected.close()
            raise
        return connected

    def check_suite(self, connected: ssl.SSLSocket) -> None:
        """Check the suite after the handshake: before Python 3.15, TLS 1.3 suites cannot be chosen before it."""
        chosen = connected.cipher()
        if self.cipher_suites and (chosen is None or chosen[0] not in self.cipher_suites):
            name = chosen[0] if chosen else "no cipher suite"
            raise CipherRefused(f"it chose {name}, which is not among those allowed")


def openssl_cipher(suite: str) -> str | None:
    """OpenSSL's name of a cipher suite, given by that name or by IANA's, which Java uses. None if this OpenSSL does not
    know it."""
    if suite in TLS13_SUITES:
        return suite
    name = suite
    if suite.startswith("TLS_") and "_WITH_" in suite:
        exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
        exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
        cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC_", "_")
        if cipher.startswith("CHACHA20_POLY1305"):
            cipher = "CHACHA20_POLY1305"
        name = exchange + cipher.replace("_", "-")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_ciphers(name)
    except ssl.SSLError:
        return None
    # Not "HIGH" or "ALL", which are lists and not suites.
    return name if name in {known["name"] for known in context.get_ciphers()} else None
