"""TLS and SASL settings as one value whose repr shows no secret."""

from __future__ import annotations

import errno
import re
import ssl
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import AuthenticationFailed
from penstock.wire.transport.aws import AwsLogin
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
    kerberos_service: str | None = None
    """Of mechanism GSSAPI."""
    kerberos_domain: str | None = None
    aws: AwsLogin | None = None
    """Of mechanism AWS_MSK_IAM."""

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

    def kafka_python_settings(self) -> dict[str, Any]:
        """The SASL settings under the names that kafka-python's clients and mechanisms expect."""
        return {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.sasl_password,
            "sasl_kerberos_service_name": self.kerberos_service,
            "sasl_kerberos_domain_name": self.kerberos_domain,
            "sasl_kerberos_name": None,
        }


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
