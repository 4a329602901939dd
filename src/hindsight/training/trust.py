"""Whose code a run names. An env id such as `module:Name-v0` is a module to import, which is code
to run.

A run that was made here bears a mark: a keyed hash (HMAC) of its env. The key never leaves the
user's state directory. For other runs the user must say that the module may be imported. Envs
without a module part need no trust: they are installed here.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hindsight.errors import HindsightError
from hindsight.saving.files import is_plain, read_file, write_aside

MARK = "made-here"


def names_code(env: str) -> bool:
    """Whether making the env would import a module that nobody has imported yet."""
    module, colon, _ = env.partition(":")
    return bool(colon) and module not in sys.modules


def require_trust(run: Path, env: str, env_kwargs: Mapping[str, Any], trust: bool = False) -> None:
    """Raise HindsightError if a run names code to import, was not made here, and is not trusted."""
    if not names_code(env) or is_made_here(run, env, env_kwargs):
        return
    if not trust:
        module = env.partition(":")[0]
        raise HindsightError(
            f"{run} was not made here, and its env {env!r} would import the module {module!r}, "
            "which runs code; "
            "if you trust it: --trust (in Python: trust=True)"
        )
    mark(run, env, env_kwargs)


def mark(run: Path, env: str, env_kwargs: Mapping[str, Any]) -> None:
    """Note in a run that it was made here, or is trusted, if it matters. Without a place for the
    key, do nothing."""
    key = _key(make=True) if ":" in env else None
    if key is not None:
        with contextlib.suppress(OSError):
            write_aside(run / MARK, _sign(key, env, env_kwargs).encode())


def is_made_here(run: Path, env: str, env_kwargs: Mapping[str, Any]) -> bool:
    key = _key() if is_plain(run / MARK) else None
    if key is None:
        return False
    with contextlib.suppress(OSError, HindsightError):
        return hmac.compare_digest(
            read_file(run / MARK, 1 << 10), _sign(key, env, env_kwargs).encode()
        )
    return False


def _sign(key: bytes, env: str, env_kwargs: Mapping[str, Any]) -> str:
    return hmac.new(
        key, json.dumps([env, dict(env_kwargs)], sort_keys=True).encode(), hashlib.sha256
    ).hexdigest()


def _key(make: bool = False) -> bytes | None:
    """The key of this user on this machine; made when it is first needed."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "hindsight" / "key"
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(32))
        key = read_file(path, 1 << 10)
    except (OSError, RuntimeError, HindsightError):  # the second: there is no home directory
        return None
    return key if len(key) == 32 else None
