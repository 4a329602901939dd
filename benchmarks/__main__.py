"""`python -m benchmarks WHAT`: measure this machine and this library, as ratios within one run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from hindsight.errors import HindsightError

BENCHMARKS = {
    "learner": "time per DDPG update",
    "updates": "time per update of SAC and TQC, against sbx and Stable-Baselines3",
    "simulation": "env steps per second",
    "training": "env steps per second of whole training",
    "asynchronous": "the same of A3C, by the number of workers",
    "replay": "microseconds to add, sample and update, at a million transitions",
    "distributed": "episodes per second with collectors on Ray, and a model of more",
    "startup": "seconds until a program can act, milliseconds per action",
    "sb3": "Stable-Baselines3 with its own HER buffer and with ours: time per batch and update",
    "sb3_learning": "the same: what is learnt, on FetchReach and bit flip",
    "zoo": "Stable-Baselines3 on Fetch with the RL Zoo's settings: until 0.95, or an hour each",
    "parking": "Stable-Baselines3 on parking-v0, as in its documentation (a quarter of an hour)",
    "checkpoint": "seconds to save and load a full replay",
    "memory": "resident size over 300,000 steps",
}


def main(arguments: Sequence[str] | None = None) -> int:
    width = max(map(len, BENCHMARKS))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure this machine and this library, as ratios within one run.",
        epilog="\n".join(f"  {name:{width}}  {text}" for name, text in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", choices=BENCHMARKS, metavar="WHAT", help="one of those listed below"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--figure", type=Path, help="draw what was measured (distributed)")
    parser.add_argument("--envs", nargs="+", default=[], help="only these (zoo)")
    options = parser.parse_args(arguments)
    benchmark = import_module(f"benchmarks.{options.what}")
    if options.figure and not hasattr(benchmark, "draw"):
        parser.error(f"{options.what} has no figure")
    only = {"envs": options.envs} if options.envs else {}
    if only and options.what != "zoo":
        parser.error(f"{options.what} has no --envs")
    try:
        result = benchmark.run(**only)
    except HindsightError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result) if options.json else benchmark.table(result))
    if options.figure:
        benchmark.draw(result, options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
