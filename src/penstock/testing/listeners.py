"""The listener of a cluster: its protocol, users and certificates, as broker settings and as client options.

Nodes and the controller use the same protocol as the clients, so a broker with passwords has no open port.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import OptionError
from penstock.testing.certificates import Identity
from penstock.wire.transport.security import Security
from penstock.wire.transport.tls import Tls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_INTERNAL_USER = "penstock-node"


@dataclass(frozen=True, slots=True)
class Listener:
    """Protocol, users and certificates. Its repr shows no password."""

    protocol: str
    users: Mapping[str, str] = field(repr=False)
    internal_password: str = field(repr=False)
    broker: Identity | None = None
    client: Identity | None = None

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def broker_settings(self) -> dict[str, str]:
        settings = {
            "listener.security.protocol.map": f"CLIENT:{self.protocol},CONTROLLER:{self.protocol}",
            "inter.broker.listener.name": "CLIENT",
            "controller.listener.names": "CONTROLLER",
        }
        if self.uses_tls:
            assert self.broker is not None
            # Nodes log in to each other with the broker's own key, so its certificate is trusted.
            trusted = [one.certificate_file.read_text("ascii") for one in (self.broker, self.client) if one]
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.broker.key_file),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "".join(trusted),
            }
            # With the prefix of the listener: with SASL_SSL Kafka ignores the general setting.
            for name in ("client", "controller"):
                settings[f"listener.name.{name}.ssl.client.auth"] = "required" if self.client else "none"
        if self.uses_sasl:
            users = {_INTERNAL_USER: self.internal_password, **self.users}
            accounts = [f"user_{name}={_quoted(password)}" for name, password in users.items()]
            me = [f"username={_quoted(_INTERNAL_USER)}", f"password={_quoted(self.internal_password)}"]
            plain = f"{_LOGIN_MODULES['PLAIN']} required {' '.join([*me, *accounts])};"
            settings |= {
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": plain,
                "listener.name.controller.plain.sasl.jaas.config": plain,
                # If the user sets an authorizer, the nodes must stay authorized for everything.
                "super.users": f"User:{_INTERNAL_USER}",
            }
            for mechanism in MECHANISMS[1:]:
                module = f"{_LOGIN_MODULES[mechanism]} required;"
                settings[f"listener.name.client.{mechanism.lower()}.sasl.jaas.config"] = module
        return settings

    def client_options(self, mechanism: str, user: str | None, password: str | None) -> dict[str, str]:
        """Client options under Kafka's own names, without the addresses."""
        options = {"security.protocol": self.protocol}
        if self.uses_tls:
            assert self.broker is not None
            options["ssl.truststore.type"] = "PEM"
            options["ssl.truststore.location"] = str(self.broker.certificate_file)
            if self.client is not None:
                options["ssl.keystore.type"] = "PEM"
                options["ssl.keystore.location"] = str(self.client.key_file)
        if self.uses_sasl:
            name, secret = self._login(user, password)
            options["sasl.mechanism"] = _checked("mechanism", mechanism, MECHANISMS)
            options["sasl.jaas.config"] = (
                f"{_LOGIN_MODULES[mechanism]} required username={_quoted(name)} password={_quoted(secret)};"
            )
        return options

    def node_security(self) -> Security:
        """The security of this process's own requests: it logs in as one of the nodes."""
        if not self.uses_sasl:
            return self._security()
        return self._security("PLAIN", _INTERNAL_USER, self.internal_password)

    def last_user_security(self) -> Security:
        name, password = list(self.users.items())[-1]
        return self._security(MECHANISMS[-1], name, password)

    def _security(self, mechanism: str | None = None, user: str | None = None, password: str | None = None) -> Security:
        return Security(
            self.protocol,
            Tls(
                ca_file=str(self.broker.certificate_file) if self.broker else None,
                certificate_file=str(self.client.key_file) if self.client else None,
            ),
            sasl_mechanism=mechanism,
            sasl_username=user,
            sasl_password=password,
        )

    def _login(self, user: str | None, password: str | None) -> tuple[str, str]:
        name = user if user is not None else next(iter(self.users))
        if password is not None:
            return name, password
        if name not in self.users:
            raise OptionError("user", name, f"is not a user of the broker. Its users are {', '.join(self.users)}")
        return name, self.users[name]


def listener(
    protocol: str, users: Mapping[str, str | None] | None, broker: Identity | None, client: Identity | None
) -> Listener:
    """A listener with its users (default: `penstock`). Missing passwords are random."""
    named = users if users else {"penstock": None}
    passwords = {name: secrets.token_urlsafe(18) if secret is None else secret for name, secret in named.items()}
    return Listener(protocol, passwords, secrets.token_urlsafe(18), broker, client)


def check_listener(protocol: str, users: Mapping[str, str | None] | None, client_auth: bool) -> None:
    """Refuse settings that cannot work, before anything is downloaded or started."""
    _checked("listener", protocol, PROTOCOLS)
    if users and not protocol.startswith("SASL_"):
        raise OptionError(
            "users", ", ".join(users), f"listener {protocol} has no login", "Use SASL_PLAINTEXT or SASL_SSL"
        )
    for name in users or ():
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise OptionError("users", name, "must be letters, digits, dots, dashes and underscores")
    if client_auth and not protocol.endswith("SSL"):
        raise OptionError("client_auth", client_auth, f"listener {protocol} has no certificates", "Use SSL or SASL_SSL")


def _checked(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise OptionError(name, value, f"must be one of {', '.join(known)}")
    return value


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
