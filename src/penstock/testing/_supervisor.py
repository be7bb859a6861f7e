"""Supervisor: a process between the starter (the program with the EmbeddedKafka) and one broker.

It ends the broker when the starter ends, also if the starter is killed.

`node.py` runs it as a script and never imports it. It is the broker's parent and the starter's child. Its standard
input is a pipe from the starter:

    stop, kill, pause, resume      one order per line, each a signal to the broker; it answers "paused" after a pause
    end of file                    the starter has ended, perhaps by SIGKILL: end the broker, remove its directory

It uses only the standard library and is started with `-I -S`, so it starts in about 20 ms and imports nothing of
Penstock.

Why a process, and not something simpler: PR_SET_PDEATHSIG alone exists only on Linux and follows the *thread* that
forked, which may end before the broker should; atexit does not run on a SIGKILL; a broker that reads the pipe itself
would need our code inside the JVM.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time

POLL_SECONDS = 1.0
ORDERS = {
    b"stop": signal.SIGTERM,
    b"kill": signal.SIGKILL,
    b"pause": signal.SIGSTOP,
    b"resume": signal.SIGCONT,
}


def main() -> int:
    parent = int(sys.argv[1])
    grace_seconds = float(sys.argv[2])  # 0: no clean shutdown, because the data is not kept
    remove_after_crash = sys.argv[3]
    console = sys.argv[4]
    command = sys.argv[5:]

    # Ctrl-C does not reach this session. A SIGTERM for this process is meant for the broker.
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # The end of the broker sends SIGCHLD, which writes a byte here: no need to poll for it.
    wake_up, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with open(console, "ab") as output:  # noqa: PTH123
        broker = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=_die_with_parent
        )
    signal.signal(signal.SIGTERM, lambda *_: broker.terminate())
    sys.stdout.write(f"{broker.pid}\n")
    sys.stdout.flush()

    orphaned = _follow_orders(broker, parent, wake_up)
    if orphaned:
        _end(broker, grace_seconds)
        if remove_after_crash:
            # With several nodes every supervisor does this; when the last one does, no broker writes any more.
            shutil.rmtree(remove_after_crash, ignore_errors=True)
    code = broker.wait()
    return code if code >= 0 else 128 - code


def _follow_orders(broker: subprocess.Popen[bytes], parent: int, wake_up: int) -> bool:
    """Pass on orders until the broker ends (returns False) or the starter ends (returns True)."""
    pending = b""
    while broker.poll() is None:
        readable, _, _ = select.select([0, wake_up], [], [], POLL_SECONDS)
        # A child that the starter forked may keep the pipe open, so the parent pid is checked too.
        if os.getppid() != parent:
            return True
        if 0 not in readable:
            if wake_up in readable:
                os.read(wake_up, 64)
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            return True
        *orders, pending = (pending + chunk).split(b"\n")
        for order in orders:
            broker.send_signal(ORDERS[order])
            if order == b"pause":
                _await_stop(broker.pid)
                sys.stdout.write("paused\n")
                sys.stdout.flush()
    return os.getppid() != parent


def _await_stop(pid: int) -> None:
    """Wait until the broker is stopped: the signal takes time, and until then the broker answers requests."""
    if hasattr(os, "waitid"):  # not on macOS
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _end(broker: subprocess.Popen[bytes], grace_seconds: float) -> None:
    if grace_seconds > 0:
        broker.send_signal(signal.SIGCONT)
        broker.terminate()
        end = time.monotonic() + grace_seconds
        while broker.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
    if broker.poll() is None:
        broker.kill()
        broker.wait()


def _die_with_parent() -> None:
    # On Linux a SIGKILL of this supervisor also ends the broker. Safe here: this process has one thread.
    if sys.platform == "linux":
        with contextlib.suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


if __name__ == "__main__":
    sys.exit(main())
