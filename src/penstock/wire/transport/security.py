"""TLS and SASL settings as one value whose repr shows no secret."""

from __future__ import annotations

import errno
import re
import ssl
from dataclasses import dataclass, field

from penstock.errors import AuthenticationFailed
from penstock.wire.transport.aws import AwsLogin
from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.key_store import KeyStoreError
from penstock.wire.transport.oauth import OAuthLogin
from penstock.wire.transport.tls import Tls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL settings. Frozen, hashable (connections are cached by it) and picklable."""

    protocol: str = "PLAINTEXT"
    tls: Tls = field(default_factory=Tls)
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    is_delegation_token: bool = False
    """Whether user and password are those of a delegation token. For SCRAM."""
    oauth: OAuthLogin | None = None
    kerberos: KerberosLogin | None = None
    """Of mechanism GSSAPI."""
    aws: AwsLogin | None = None
    """Of mechanism AWS_MSK_IAM."""

    @property
    def user(self) -> str:
        """Who logs in, for messages."""
        of_kerberos = self.kerberos.principal if self.kerberos is not None else None
        return self.sasl_username or of_kerberos or "this client"

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def tls_context(self, option_prefix: str = "kafka.") -> ssl.SSLContext:
        """The prefix is that of the user's options, for errors."""
        try:
            return self.tls.context()
        except KeyStoreError as error:
            raise AuthenticationFailed(
                f"the TLS certificates cannot be loaded: {option_prefix}{error.setting}: {error}"
            ) from error
        except OSError as error:  # which ssl.SSLError is too
            if error.errno in NO_DESCRIPTORS and not isinstance(error, ssl.SSLError):
                raise  # not about the certificates: a later attempt may succeed
            names = ("ssl.truststore.location", "ssl.keystore.location", "ssl.key.password")
            first, second, third = (option_prefix + name for name in names)
            raise AuthenticationFailed(
                f"the TLS certificates cannot be loaded ({error}). Check {first}, {second} and {third}"
            ) from error


JAAS_ENTRY = re.compile(r"""([A-Za-z_][\w.]*)\s*=\s*("((?:[^"\\]|\\.)*)"|'([^']*)'|[^\s;]+)""")


def parse_jaas(text: str) -> dict[str, str]:
    """The key="value" pairs of a sasl.jaas.config line."""
    pairs = {}
    for match in JAAS_ENTRY.finditer(text):
        name, raw, quoted, single = match.groups()
        if quoted is not None:
            pairs[name] = re.sub(r"\\(.)", r"\1", quoted)
        else:
            pairs[name] = single if single is not None else raw
    return pairs
