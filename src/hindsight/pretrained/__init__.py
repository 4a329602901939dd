"""Policies that come with the library, one per env: a directory each, as of a run.

`results.json` in it says what the policy reached, and by which command it was made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hindsight.errors import HindsightError, nearest

DIRECTORY = Path(__file__).parent
RESULTS = "results.json"


def envs() -> list[str]:
    """Those that have a policy."""
    return sorted(path.parent.name for path in DIRECTORY.glob(f"*/{RESULTS}"))


def path_of(env: str) -> Path:
    """The directory of an env's policy."""
    if env not in envs():
        raise HindsightError(
            f"no policy of {env!r} comes with the library.{nearest(env, envs())} There are: "
            f"{', '.join(envs())}"
        )
    return DIRECTORY / env


def results_of(env: str) -> dict[str, Any]:
    """What its policy reached, on how many episodes, and the command that made it."""
    results: dict[str, Any] = json.loads((path_of(env) / RESULTS).read_text())
    return results


def run_or_env(name: str | Path) -> Path:
    """A path as it is, if there is something; else, if it is an env's id, its policy here."""
    if not Path(name).exists() and str(name) in envs():
        return path_of(str(name))
    return Path(name)
