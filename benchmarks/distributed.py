"""Collectors on Ray: what they cost, and what more of them would give.

An env that sleeps shows a real speed-up on any machine: it is waited for, not computed. From runs
with one collector a model of the cost is fitted; runs with two and four check it; what it says of
more is drawn from it, not measured.
"""

from __future__ import annotations

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.sleeping import SleepingEnv
from hindsight.api import train
from hindsight.distributed.cluster import connected
from hindsight.training.run import machine, versions

EPISODES, CYCLES, WARM_UP = 8, 14, 4
SECONDS_PER_STEP = 0.005
MEASURED, DRAWN = (1, 2, 4), (8, 64, 512)


def measured(seconds: float, **ray: Any) -> dict[str, float]:
    """Seconds per cycle, and by activity; bytes per cycle. Medians are not taken: sums are what a
    training takes."""
    with tempfile.TemporaryDirectory() as directory:
        run = train(
            partial(SleepingEnv, seconds),
            run_dir=Path(directory) / "run",
            quiet=True,
            steps=CYCLES * EPISODES * SleepingEnv.max_episode_steps,
            num_envs=EPISODES,
            episodes_per_cycle=EPISODES,
            eval_every=10**6,
            eval_episodes=1,
            gradient_steps=10,
            simulator="inline",
            replay={"goals_chosen": "stored"},
            priority={"sampling": "proportional", "updates_per_draw": 10},
            **ray,
        )
        rows = run.metrics
    first, last = rows[WARM_UP - 1], rows[-2]  # the last one evaluates
    cycles = last["cycle"] - first["cycle"]
    names = ("total", "collect", "learn", "replay")
    found = {name: (last[f"time/{name}"] - first[f"time/{name}"]) / cycles for name in names}
    if ray:
        bytes_ = 1e6 * (last["collectors/megabytes"] - first["collectors/megabytes"])
        found["bytes"] = bytes_ / cycles
        found["staleness"] = rows[-2].get("collectors/staleness", 0.0)
    return found


def model(one: dict[str, float], ahead: dict[str, float], overhead: float) -> dict[str, Any]:
    """Seconds per episode: of the env, and of the learner, who also takes the episodes in."""
    return {
        "env": (one["collect"] - overhead) / EPISODES,
        "learner": (ahead["learn"] + ahead["replay"]) / EPISODES,
        "transport": overhead,
    }


def lockstep(parts: dict[str, Any], collectors: float) -> float:
    """Episodes per second, if the learner waits for rounds that are divided."""
    rows = math.ceil(EPISODES / collectors)
    cycle = parts["env"] * rows + parts["transport"] + parts["learner"] * EPISODES
    return float(EPISODES / cycle)


def asynchronous(parts: dict[str, Any], collectors: float) -> float:
    """Episodes per second, if collectors play on: as many as they play, or the learner takes."""
    return float(min(collectors / parts["env"], 1.0 / parts["learner"]))


def run() -> dict[str, Any]:
    with connected("local", max(MEASURED)):
        on = {"ray": "local"}
        local, one = measured(0.0), measured(0.0, **on, collectors=1)
        overhead = max(one["collect"] - local["collect"], 0.0)
        waited = measured(SECONDS_PER_STEP)
        step = {n: measured(SECONDS_PER_STEP, **on, collectors=n) for n in MEASURED}
        ahead = {
            n: measured(SECONDS_PER_STEP, **on, collectors=n, asynchronous=True) for n in MEASURED
        }
    parts = model(step[1], ahead[1], overhead)
    rows = []
    for n in (*MEASURED, *DRAWN):
        row: dict[str, Any] = {"collectors": n}
        for name, predict, runs in (
            ("lockstep", lockstep, step),
            ("asynchronous", asynchronous, ahead),
        ):
            row[name] = {"model": round(predict(parts, n), 1)}
            if n in runs:
                found = runs[n]
                row[name] |= {
                    "measured": round(EPISODES / found["total"], 1),
                    "learner_waits": round(found["collect"] / found["total"], 3),
                    "kilobytes_per_second_and_collector": round(
                        found["bytes"] / found["total"] / n / 1e3, 1
                    ),
                    "staleness": round(found["staleness"], 2),
                }
        rows.append(row)
    return {
        "env": f"bit flip, 20 bits, {SECONDS_PER_STEP * 1e3:g} ms per step",
        "episodes_per_cycle": EPISODES,
        "local_episodes_per_second": round(EPISODES / waited["total"], 1),
        "milliseconds_per_cycle_without_sleep": {
            "local": round(1e3 * local["total"], 1),
            "one_collector": round(1e3 * one["total"], 1),
        },
        "transport_milliseconds_per_cycle": round(1e3 * overhead, 1),
        "transport_share": round(overhead / step[1]["total"], 4),
        "kilobytes_per_episode": round(step[1]["bytes"] / EPISODES / 1e3, 2),
        "kilobytes_per_episode_asynchronous": round(ahead[1]["bytes"] / EPISODES / 1e3, 2),
        "milliseconds_per_episode": {
            name: round(1e3 * parts[name], 2) for name in ("env", "learner")
        },
        "learner_saturates_at_collectors": round(parts["env"] / parts["learner"], 1),
        "rows": rows,
        "machine": machine(),
        "versions": dict(versions()),
    }


def table(result: dict[str, Any]) -> str:
    cycle = result["milliseconds_per_cycle_without_sleep"]
    each = result["milliseconds_per_episode"]
    lines = [
        f"{result['env']}; {result['episodes_per_cycle']} episodes per cycle",
        f"without sleep: {cycle['local']} ms per cycle here, {cycle['one_collector']} with one "
        "collector",
        f"transport: {result['transport_milliseconds_per_cycle']} ms per cycle, "
        f"{100 * result['transport_share']:.1f} % of a run with one collector",
        f"{result['kilobytes_per_episode']} kB per episode; asynchronous, with pairs and TD "
        f"errors, {result['kilobytes_per_episode_asynchronous']}",
        f"an episode takes {each['env']} ms of its env, {each['learner']} ms of the learner, who "
        f"saturates at {result['learner_saturates_at_collectors']} collectors",
        "",
        f"episodes/s: here {result['local_episodes_per_second']}",
        "collectors  lockstep: model, measured, learner waits   asynchronous: the same, staleness",
    ]
    for row in result["rows"]:
        step, ahead = row["lockstep"], row["asynchronous"]
        shown = f"{row['collectors']:10}  {step['model']:8} {step.get('measured', '-'):>8} "
        shown += f"{step.get('learner_waits', '-'):>8}   {ahead['model']:8} "
        shown += f"{ahead.get('measured', '-'):>8} {ahead.get('learner_waits', '-'):>8} "
        lines.append(shown + f"{ahead.get('staleness', '-'):>6}")
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """Episodes per second against collectors: the model's lines, and what was measured."""
    from matplotlib import pyplot as plt

    from hindsight.lab import plots

    each = result["milliseconds_per_episode"]
    parts = {name: each[name] / 1e3 for name in ("env", "learner")}
    parts["transport"] = result["transport_milliseconds_per_cycle"] / 1e3
    figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
    counts = [2 ** (i / 4) for i in range(4 * int(math.log2(max(DRAWN))) + 1)]
    for name, predict, colour in (
        ("lockstep", lockstep, plots.COLOURS[plots.BLUE]),
        ("asynchronous", asynchronous, plots.COLOURS[plots.ORANGE]),
    ):
        axis.plot(counts, [predict(parts, n) for n in counts], color=colour, label=f"{name}, model")
        rows = [row for row in result["rows"] if "measured" in row[name]]
        axis.plot(
            [row["collectors"] for row in rows],
            [row[name]["measured"] for row in rows],
            "o",
            color=colour,
            label=f"{name}, measured",
        )
    saturated = result["learner_saturates_at_collectors"]
    axis.axvline(saturated, color=plots.COLOURS[plots.BLACK], linestyle=":")
    axis.annotate(f" the learner is busy\n ({saturated:g} collectors)", (saturated, 10))
    axis.set(xscale="log", yscale="log")
    axis.set_xticks([*MEASURED, *DRAWN], labels=map(str, (*MEASURED, *DRAWN)))
    axis.minorticks_off()
    plots.name_axes(axis, "collectors", "episodes per second")
    axis.legend(frameon=False)
    plots.save(figure, path)
