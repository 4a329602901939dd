"""The process of a job of `hindsight reproduce --jobs N`; `SeedRun.command` has its argument."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hindsight.errors import HindsightError
from hindsight.lab.jobs import OUT_OF_TIME, OutOfTime
from hindsight.lab.reproduce.folder import find
from hindsight.lab.reproduce.seed_run import SeedRun, run_here


def main(text: str) -> int:
    given = json.loads(text)
    deadline = time.monotonic() + 60 * given["left"]
    entry = next(e for e in find().entries(given["home"]) if e.slug == given["slug"])
    how = (given["trial_steps"], given["shared_machine"])
    try:
        run_here(
            SeedRun(entry, given["seed"], Path(given["run_dir"]), *how),
            lambda: (deadline - time.monotonic()) / 60,
        )
    except OutOfTime:
        return OUT_OF_TIME
    except HindsightError as error:
        print(f"hindsight: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
