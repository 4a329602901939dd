"""Ray, started on this machine or joined: when it is asked for, and without its messages."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from hindsight.errors import HindsightError

LOCAL, RUNNING = "local", "auto"
"""Addresses by name: a Ray of our own on this machine; the cluster that this machine is part of."""
REACHED_SECONDS = 10.0


def default_address() -> str:
    """RAY_ADDRESS if it is set, as for all that uses Ray; else a Ray of our own."""
    return os.environ.get("RAY_ADDRESS") or LOCAL


@contextlib.contextmanager
def connected(address: str = LOCAL, cpus: int = 1) -> Iterator[Any]:
    """The module `ray`, connected: to a Ray of our own with at least so many CPUs, which listens on
    127.0.0.1 only and ends with us; or to a running one by its address.

    One that the caller has connected to before stays as it is.
    """
    ray = imported(address)
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address, cpus)
    try:
        with _no_error_dumps():
            yield ray
    finally:
        ray.shutdown()


def imported(address: str = LOCAL) -> Any:
    """The module `ray`, told to keep quiet and to ask nobody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as it warns it soon will be
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    if address == LOCAL:
        # Ray's one switch for 127.0.0.1 instead of the address that other machines see. It is
        # read when Ray is imported.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise HindsightError("Ray is not installed: pip install 'hindsight-rl[ray]'") from None
    return ray


def _connect(ray: Any, address: str, cpus: int) -> None:
    settings: dict[str, Any] = {"num_cpus": max(os.cpu_count() or 1, cpus)}
    if address == LOCAL:
        settings["include_dashboard"] = False
    else:
        _reach(address)
        settings = {}
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if main else None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork")  # by JAX; what is forked starts afresh
            ray.init(
                address=address, log_to_driver=False, logging_level=logging.CRITICAL, **settings
            )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split())
        raise HindsightError(f"cannot use Ray at {address}: {reason}") from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)  # Ray puts its own there


def check_address(address: str) -> None:
    """Raise HindsightError if this cannot be one."""
    _, colon, port = address.rpartition(":")
    is_place = bool(colon) and port.isdigit() and not address.startswith("ray://")
    if address not in (LOCAL, RUNNING) and not is_place:
        what = f"{LOCAL}, {RUNNING}, or HOST:PORT of a running cluster"
        raise HindsightError(f"the address of Ray is {what}; got {address!r}")


def _reach(address: str) -> None:
    """Raise HindsightError if nobody listens at HOST:PORT: Ray itself would try for minutes."""
    if address == RUNNING:
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_SECONDS).close()
    except OSError as error:
        raise HindsightError(
            f"no Ray at {address} ({error.strerror or error}): start one with `ray start --head`"
        ) from None


@contextlib.contextmanager
def _no_error_dumps() -> Iterator[None]:
    """Ray shows pages of its logs when a node dies, and has no switch for it. We say it in a
    line."""
    worker: Any = sys.modules["ray._private.worker"]
    shown = getattr(worker, "print_to_stdstream", None)
    if shown is None:
        yield
        return
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = shown
