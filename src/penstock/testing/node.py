"""One broker process: its directory, its ports, its keeper.

work_dir/node-1/
  server.properties    what the broker was started with; readable by its owner only
  server.log           Kafka's log, kept over restarts of the node
  console.log          what the JVM itself printed
  data/                the partitions, unless the user named a data directory
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import EmbeddedBrokerError
from penstock.testing.distribution import Distribution

LOOPBACK = "127.0.0.1"

# Below every system's range for outgoing connections (Linux 32768+, macOS and IANA 49152+). Do not simplify
# to "bind to port 0": a port from that range can be taken by any client's socket while its node is down, and
# a client that keeps reconnecting to it on loopback may even connect to itself.
_PORTS = range(15_000, 32_000)

# Not the module's own generator, which programs and test plugins seed: two processes that are seeded alike would try
# the same ports in the same order, and take those of a node that is down for a moment.
_RANDOM = random.SystemRandom()

_KEEPER = Path(__file__).with_name("_keeper.py")
_LOG4J = """\
<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="${sys:penstock.log}"><PatternLayout pattern="%d %p %c{1} %m%n"/></File>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """The two doors of a node in combined mode."""

    client: int
    controller: int


@dataclass(frozen=True, slots=True)
class Jvm:
    """How a broker's Java machine is run."""

    heap_mb: int
    options: Sequence[str]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. Another process may still be quicker: the start tries again."""
    held: list[socket.socket] = []
    try:
        for port in _RANDOM.sample(_PORTS, len(_PORTS)):
            if len(held) == count:
                break
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                probe.close()
            else:
                held.append(probe)
        if len(held) < count:
            raise EmbeddedBrokerError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}")
        return [int(probe.getsockname()[1]) for probe in held]
    finally:
        for probe in held:
            probe.close()


class Node:
    """One Kafka process in combined mode (broker and controller). Not thread-safe."""

    def __init__(self, node_id: int, ports: Ports, work_dir: Path, data_dir: Path, distribution: Distribution) -> None:
        self.id = node_id
        self.ports = ports
        self.directory = work_dir / f"node-{node_id}"
        self.data_dir = data_dir
        self._work_dir = work_dir
        self._distribution = distribution
        self._keeper: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None

    def format(self, cluster_id: str) -> None:
        """Do what `kafka-storage format` does, less its JVM start (0.8 s): a checkpoint made once by that
        tool, and the identity of this node. A directory that is formatted already is left alone."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        identity = self.data_dir / "meta.properties"
        if identity.exists():
            return
        checkpoint = self.data_dir / "bootstrap.checkpoint"
        checkpoint.write_bytes(self._distribution.bootstrap_checkpoint())
        identity.write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={self.id}\n", "utf-8")

    def configure(self, properties: Mapping[str, str]) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [f"{_escape(name)}={_escape(value)}" for name, value in sorted(properties.items())]
        path = self.directory / "server.properties"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n", "ascii")
        (self.directory / "log4j2.xml").write_text(_LOG4J, "ascii")

    def start(self, jvm: Jvm, *, grace_seconds: float) -> None:
        """Start the process; the caller asks it whether it is ready."""
        if not sys.executable:
            raise EmbeddedBrokerError("sys.executable is empty: the broker's keeper needs a Python to run it")
        command: list[str | Path] = [
            *(sys.executable, "-I", "-S", _KEEPER),
            *(str(os.getpid()), str(grace_seconds), self._work_dir, self.directory / "console.log"),
            self._distribution.java,
            f"-Xmx{jvm.heap_mb}m",
            *jvm.options,
            f"-Dpenstock.log={self.directory / 'server.log'}",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
            *("-cp", self._distribution.classpath(), "kafka.Kafka", self.directory / "server.properties"),
        ]
        # A session of its own: Ctrl-C in the terminal must not take the broker from under a parent that is
        # tidying up.
        self._keeper = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._keeper.stdout is not None
        said = self._keeper.stdout.readline()
        if not said.strip().isdigit():
            self._close()
            raise EmbeddedBrokerError(f"node {self.id} could not be started: {self.console()}")
        self.pid = int(said)

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    def order(self, order: str) -> None:
        """Have the keeper signal the broker: stop, kill, pause or resume."""
        if self._keeper is None:
            return
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError):  # the broker has just ended by itself, and its keeper with it
            self._keeper.stdin.write(order.encode() + b"\n")
            self._keeper.stdin.flush()
            if order == "pause":
                assert self._keeper.stdout is not None
                self._keeper.stdout.readline()  # says so when it has stopped; nothing if it has ended

    def wait(self, seconds: float) -> bool:
        """Wait until the process is gone and reaped; False when it outlives the time."""
        if self._keeper is None:
            return True
        try:
            self._keeper.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        self._close()
        return True

    def _close(self) -> None:
        if self._keeper is not None:
            for pipe in (self._keeper.stdin, self._keeper.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
            self._keeper.wait()
            self._keeper = None
        self.pid = None

    def accepts(self) -> bool:
        """Does anyone listen on the client port?"""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.ports.client), timeout=1):
            return True
        return False

    def log(self) -> str:
        return _read(self.directory / "server.log")

    def console(self) -> str:
        return _read(self.directory / "console.log")

    def last_words(self, lines: int = 15) -> str:
        """What the JVM printed and the end of the log, less the stack frames: for an error message."""
        log = [line for line in self.log().splitlines() if not line.startswith("\t")]
        tail = [*self.console().splitlines()[-lines:], *log[-lines:]]
        return "\n".join(f"  | {line}" for line in tail) or "  | (no log)"

    def port_was_taken(self, port: int | None = None) -> bool:
        """Whether it ended because somebody else had its port: this one, or any of them."""
        return f"{'' if port is None else f':{port}: '}Address already in use" in self.log() + self.console()


def wait_until(end: float, pause: float) -> bool:
    """Sleep a little; False when the deadline (on the monotonic clock) has passed."""
    left = end - time.monotonic()
    if left <= 0:
        return False
    time.sleep(min(pause, left))
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _escape(text: str) -> str:
    """As `java.util.Properties` reads it: a backslash before what would end or begin something, \\u for the
    rest."""
    out = []
    for character in text:
        if character in "\\=:#! \t":
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\r":
            out.append("\\r")
        elif " " <= character <= "~":
            out.append(character)
        else:
            utf16 = character.encode("utf-16-be").hex()
            out += [f"\\u{utf16[at : at + 4]}" for at in range(0, len(utf16), 4)]
    return "".join(out)
