"""A real Kerberos KDC (MIT's, from the system's packages) on a loopback port, with a realm, folder and krb5.conf of its
own; and a broker whose users it knows."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from chaos.processes import Program, until
from penstock.testing import EmbeddedKafka
from penstock.testing.cluster import QUICK_START
from penstock.testing.listeners import MECHANISMS
from penstock.testing.node import LOOPBACK, free_ports

REALM = "PENSTOCK.TEST"
START_SECONDS = 60.0
PORT_TRIES = 3
READY = "commencing operation"
ADMIN_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"

CLIENT_CONFIG = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
{settings}
[realms]
  {realm} = {{
    kdc = {host}:{port}
  }}
"""

KDC_CONFIG = """\
[kdcdefaults]
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/kadm5.acl
    max_life = 1d
  }}
[logging]
  kdc = FILE:{folder}/requests.log
"""


class Kdc:
    """A KDC that tests can stop and start. Used by one thread."""

    def __init__(self, folder: Path, *, clock: str | None = None) -> None:
        """`clock`: an offset for its clock, as faketime takes it (`+1h`)."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.config = folder / "krb5.conf"
        self._clock = clock
        self.port = 0
        self._program: Program | None = None
        self._configure(1)  # any port: creating the database needs the realm only
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_hex(16))

    @property
    def environment(self) -> dict[str, str]:
        """For clients. The ticket cache of the user who runs the tests is out of reach."""
        return {"KRB5_CONFIG": str(self.config), "KRB5CCNAME": f"FILE:{self.folder}/default-cache"}

    def start(self) -> None:
        """Start at a free port the first time, and later at the same one."""
        ports = [self.port] if self.port else free_ports(PORT_TRIES)
        for port in ports:
            self._configure(port)
            (self.folder / "requests.log").unlink(missing_ok=True)
            clock = ["faketime", "-f", self._clock] if self._clock else []
            program = Program("krb5kdc", [*clock, "krb5kdc", "-n"], self.folder, self._environment())
            until(partial(self._is_up_or_gone, program), START_SECONDS)
            if program.running and READY in self.log():
                self._program, self.port = program, port
                return
            program.kill()
        raise AssertionError(f"krb5kdc did not start: {program.log()}{self.log()}")

    def stop(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.kill()

    def log(self) -> str:
        """Its log since the last start: one line per request."""
        path = self.folder / "requests.log"
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def logins_of(self, principal: str) -> int:
        """How many tickets for tickets this principal got since the last start."""
        issued = [line for line in self.log().splitlines() if "AS_REQ" in line and ": ISSUE:" in line]
        return sum(f" {principal}@{REALM} for krbtgt/" in line for line in issued)

    def add(self, principal: str, *options: str) -> Path:
        """Create a principal. Returns its keytab."""
        self._admin("addprinc", "-randkey", *options, principal)
        return self.keytab(principal)

    def keytab(self, principal: str) -> Path:
        """A keytab with the present key of a principal."""
        path = self.folder / f"{principal.replace('/', '-')}-{secrets.token_hex(4)}.keytab"
        self._admin("ktadd", "-norandkey", "-k", str(path), principal)
        return path

    def new_key(self, principal: str) -> Path:
        """Replace the key of a principal, which makes its keytabs useless. Returns a new one."""
        self._admin("cpw", "-randkey", principal)
        return self.keytab(principal)

    def remove(self, principal: str) -> None:
        self._admin("delprinc", "-force", principal)

    def kinit(self, keytab: Path, principal: str, cache: Path, *options: str) -> None:
        """Fill a ticket cache, as a user does."""
        self._run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", *options, f"{principal}@{REALM}")

    def is_valid(self, cache: Path) -> bool:
        """Whether a ticket cache has a ticket that has not expired, by MIT's own tool."""
        command = ["klist", "-s", "-c", f"FILE:{cache}"]
        ran = subprocess.run(command, env=os.environ | self._environment(), timeout=60, check=False)
        return ran.returncode == 0

    def client_config(self, name: str, **settings: object) -> Path:
        """Another krb5.conf for clients, with more settings."""
        lines = "".join(f"  {key} = {value}\n" for key, value in settings.items())
        path = self.folder / name
        path.write_text(CLIENT_CONFIG.format(realm=REALM, host=LOOPBACK, port=self.port, settings=lines))
        return path

    def _configure(self, port: int) -> None:
        names = {"realm": REALM, "host": LOOPBACK, "port": port, "folder": self.folder, "settings": ""}
        self.config.write_text(CLIENT_CONFIG.format(**names))
        (self.folder / "kdc.conf").write_text(KDC_CONFIG.format(**names))

    def _environment(self) -> dict[str, str]:
        path = f"{os.environ.get('PATH', '')}:{ADMIN_FOLDERS}"
        return {**self.environment, "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"), "PATH": path}

    def _admin(self, *words: str) -> None:
        query = " ".join(f'"{word}"' for word in words)  # its parser knows double quotes only
        answered = self._run("kadmin.local", "-r", REALM, "-q", query)
        # It ends with 0 after an error, too.
        assert "while" not in answered, answered
        assert "usage:" not in answered.lower(), answered

    def _run(self, *command: str) -> str:
        environment: Mapping[str, str] = os.environ | self._environment()
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        assert ran.returncode == 0, f"{command[0]}: {ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    def _is_up_or_gone(self, program: Program) -> bool:
        return READY in self.log() or not program.running


MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
SERVICE = f"kafka/{LOOPBACK}"


@contextlib.contextmanager
def kerberos_broker(kdc: Kdc, keytab: Path, **settings: object) -> Iterator[EmbeddedKafka]:
    """A broker with the service's key in this keytab, which it reads again when the file changes. Its user `writer`
    logs in by password."""
    line = f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{SERVICE}@{REALM}";'
    given = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "GSSAPI"]),
        "listener.name.client.gssapi.sasl.jaas.config": line,
        "sasl.kerberos.service.name": "kafka",
        **settings,
    }
    options = (*QUICK_START, f"-Djava.security.krb5.conf={kdc.config}")
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"writer": None}, settings=given, jvm_options=options) as kafka:
        yield kafka


def kerberos_options(kafka: EmbeddedKafka, entries: str | None, prefix: str = "kafka.", **more: str) -> dict[str, str]:
    """Options of a client, with these entries of a JAAS line. `_` in the names of more options is a dot."""
    options = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    } | {f"sasl.kerberos.{name.replace('_', '.')}": value for name, value in more.items()}
    if entries is not None:
        options["sasl.jaas.config"] = f"{MODULE} {entries};"
    return {prefix + name: value for name, value in options.items()}


def by_keytab(keytab: Path | str, principal: str) -> str:
    """The entries of a JAAS line, as Java's users write it."""
    name = principal if "@" in principal else f"{principal}@{REALM}"
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{name}"'
