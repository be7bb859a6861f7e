"""Fixture: a real PostgreSQL, from the system's packages, with a server and a folder of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.processes import Program
from penstock.embedded.node import LOOPBACK, free_ports

LOOK_FOR_IT = Path(__file__).parents[1] / "tools" / "postgresql.sh"
START_SECONDS = 60.0


class PostgresServer:
    """A server that can be taken down and brought back. Only with the password that is in its `uri`."""

    def __init__(self, programs: Path, folder: Path, account: pwd.struct_passwd | None) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._account = account
        self._program: Program | None = None
        [self._port] = free_ports(1)
        password = secrets.token_hex(8)
        self.uri = f"postgresql://tester:{password}@{LOOPBACK}:{self._port}/postgres"
        told = folder / "password"
        told.write_text(password)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
            os.chown(told, account.pw_uid, account.pw_gid)
        order = [programs / "initdb", "--pgdata", self._data, "--username=tester", f"--pwfile={told}"]
        order += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(self._as_account(order), capture_output=True, text=True, timeout=120, cwd=folder)
        assert made.returncode == 0, f"initdb: {made.stdout}{made.stderr}"

    def _as_account(self, order: list[Any]) -> list[str]:
        """PostgreSQL does not run as root."""
        words = [str(word) for word in order]
        if self._account is None:
            return words
        ids = [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--", *words]

    def start(self) -> None:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": self._port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 40,
            "shared_buffers": "16MB",
        }
        order = [self._programs / "postgres", "-D", self._data]
        order += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._program = Program("postgres", self._as_account(order), self._folder)
        self._program.await_line("ready to accept connections", START_SECONDS)

    def stop(self) -> None:
        """Clients are cut off, as in a restart by an administrator."""
        program, self._program = self._program, None
        if program is not None:
            os.kill(program.pid, signal.SIGINT)
            program.wait(START_SECONDS)
            program.log_path.unlink()  # the next start waits for the same line

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        import adbc_driver_postgresql.dbapi

        with (
            adbc_driver_postgresql.dbapi.connect(self.uri, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
            return rows


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a worker: use tables with names of their own. One that takes it down brings it back.

    Without PostgreSQL the tests that need it fail, and say how to get it.
    """
    found = subprocess.run([LOOK_FOR_IT], capture_output=True, text=True, timeout=60)
    if found.returncode:
        pytest.fail(f"{found.stderr.strip()}. Or run: make postgres", pytrace=False)
    # Not in pytest's own folder, which nobody else may look into.
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    server = PostgresServer(Path(found.stdout.strip()), folder, account())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def account() -> pwd.struct_passwd | None:
    """Who the server runs as; None: as we do."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]
