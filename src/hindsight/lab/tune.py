"""Tuning by Optuna: settings are tried with every seed, and tries that fall behind are given up.

A trial is a training per seed, one after the other, each with a run directory like any other.
Optuna's journal, in the same directory, knows what was tried; the runs know how far they are. So
the same command goes on wherever it was stopped.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from hindsight.config import TrainConfig
from hindsight.errors import HindsightError
from hindsight.lab.grid import GridRun, grid_run, write_configs
from hindsight.lab.jobs import Place, Runner, State
from hindsight.lab.space import Space, distributions, settings_of
from hindsight.lab.statistics import area
from hindsight.saving.files import write_aside
from hindsight.saving.metrics import read_metrics
from hindsight.settings import plain, with_settings
from hindsight.training.run import config_file

if TYPE_CHECKING:
    import optuna

Objective = Literal["area", "final"]
LOOKS = 20
"""Times per training at which trials are compared, to give up those that fall behind."""
STARTUP = 5
"""Trials that nothing is given up before."""
LEAST_FOR_IMPORTANCE = 4
"""Finished trials, of fewer nothing is said."""


@dataclass(frozen=True)
class TuneConfig:
    """What is tuned, and how."""

    base: TrainConfig
    space: Space
    seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    trials: int = 50
    objective: Objective = "area"
    prune: bool = True
    baseline: bool = True
    """Train the settings that we begin with, too, to compare."""
    sampler_seed: int = 0


@dataclass(frozen=True)
class TrialRun(GridRun):
    """One seed of a trial. The trial speaks for it."""

    def start_line(self, state: State) -> str:
        return ""

    def done_line(self) -> str:
        return ""


@dataclass
class Trial:
    """Settings that are tried."""

    number: int | None
    """Optuna's; None for the settings that we begin with."""
    config: TrainConfig
    settings: dict[str, Any]
    runs: list[TrialRun]
    optuna: optuna.Trial | None = None
    told: int = -1
    """The last look of which Optuna was told."""
    curves: list[list[tuple[int, float]]] = field(default_factory=list)
    """Step and success of the evaluations, of each training that has begun."""

    @property
    def name(self) -> str:
        return "preset" if self.number is None else f"trial {self.number}"

    @property
    def run(self) -> TrialRun:
        """The training that is under way."""
        return self.runs[len(self.curves) - 1]


class Tuner:
    """Asks Optuna what to try, and tells it how it goes."""

    def __init__(self, config: TuneConfig, directory: Path) -> None:
        self.config, self.directory = config, directory
        self.active: list[Trial] = []
        self.baseline: float | None = None
        self.study = self._open()
        self._distributions = distributions(config.space, config.base)

    def _open(self) -> optuna.Study:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._check_same()
        storage = JournalStorage(JournalFileBackend(str(self.directory / "journal.log")))
        pruner = optuna.pruners.MedianPruner(STARTUP, n_warmup_steps=LOOKS // 4)
        return optuna.create_study(
            storage=storage,
            study_name="tune",
            direction="maximize",
            pruner=pruner if self.config.prune else optuna.pruners.NopPruner(),
            load_if_exists=True,
        )

    def _check_same(self) -> None:
        """A directory is for one question."""
        given, path = self.config, self.directory / "tune.json"
        space = {name: plain(search) for name, search in given.space.items()}
        about = {"config": plain(given.base), "space": space, "seeds": list(given.seeds)}
        text = json.dumps(about | {"objective": given.objective}, indent=2)
        try:
            if path.is_file() and path.read_text() != text:
                raise HindsightError(
                    f"{self.directory} was tuned with another env, space, seeds or settings: "
                    "choose another --dir, or remove it"
                )
            self.directory.mkdir(parents=True, exist_ok=True)
            write_aside(path, text.encode())
        except OSError as error:
            raise HindsightError(f"cannot write to {self.directory}: {error.strerror}") from None

    # ----------------------------------------------------------------------------------- the loop

    def run(self, place: Place[TrialRun], budget: float | None, console: Console) -> None:
        """Until all trials are done, or the minutes are used up."""
        self.runner: Runner[TrialRun] = Runner(
            [], place, budget, console, each_time=self._each_time
        )
        self._to_begin = [self._begun_before(frozen) for frozen in self._trials("RUNNING")]
        if self.config.baseline:
            self._to_begin.insert(0, self._trial(None, {}))
        self.runner.run()

    def _each_time(self) -> None:
        for trial in list(self.active):
            self._follow(trial)
        if self.runner.minutes_left() > 0 and self.runner.has_room():
            following = self._to_begin.pop(0) if self._to_begin else self._ask()
            if following is not None:
                self._begin(following)

    def _ask(self) -> Trial | None:
        """What Optuna wants to try next; None if that was all, or nothing fits."""
        import optuna

        while (number := len(self.study.trials)) < self.config.trials:
            # A seed for each trial: a study that is continued draws what it would have drawn.
            entropy = np.random.SeedSequence([self.config.sampler_seed, number])
            sampler = optuna.samplers.TPESampler(seed=int(entropy.generate_state(1)[0]))
            self.study.sampler = sampler
            asked = self.study.ask(self._distributions)
            try:
                trial = self._trial(asked.number, settings_of(asked.params))
            except HindsightError as error:
                self.study.tell(asked, state=optuna.trial.TrialState.FAIL)
                self.runner.print(f"trial {asked.number} is refused: {error}")
                continue
            trial.optuna = asked
            return trial
        return None

    def _begun_before(self, frozen: optuna.trial.FrozenTrial) -> Trial:
        import optuna

        trial = self._trial(frozen.number, settings_of(frozen.params))
        trial.optuna = optuna.Trial(self.study, frozen._trial_id)
        trial.told = max(frozen.intermediate_values, default=-1)
        return trial

    def _trial(self, number: int | None, settings: dict[str, Any]) -> Trial:
        config = with_settings(self.config.base, settings)
        name = "preset" if number is None else f"trial-{number:04d}"
        runs = [
            grid_run(self.directory, f"{name}-seed{seed}", replace(config, seed=seed), TrialRun)
            for seed in self.config.seeds
        ]
        return Trial(number, config, settings, runs)

    def _begin(self, trial: Trial) -> None:
        write_configs(trial.runs)
        self.active.append(trial)
        shown = ", ".join(f"{name} {shorter(v)}" for name, v in trial.settings.items())
        self.runner.print(f"{trial.name} begins{': ' if shown else ''}{shown}")
        self._next_seed(trial)

    def _next_seed(self, trial: Trial) -> None:
        trial.curves.append([])
        self.runner.add(trial.run)

    def _follow(self, trial: Trial) -> None:
        """Take in what a trial has reached; give it up, or go on with its next seed."""
        state = self.runner.states[trial.run.name]
        trial.curves[-1] = evaluations(trial.run)
        if state == "failed":
            return self._end(trial, "FAIL", f"{trial.name} failed")
        ended = state == "done"
        if self._is_behind(trial, ended):
            self.runner.finish(trial.run)
            seeds = f"seed {trial.run.config.seed}"
            return self._end(trial, "PRUNED", f"{trial.name} is given up, behind others in {seeds}")
        if not ended:
            return None
        if len(trial.curves) < len(trial.runs):
            return self._next_seed(trial)
        values = [self._value(curve) for curve in trial.curves]
        by_seed = ", ".join(f"{value:.2f}" for value in values)
        mean = float(np.mean(values))
        best = self._best_so_far()
        if trial.optuna is not None:
            trial.optuna.set_user_attr("by_seed", values)
        else:
            self.baseline = mean
        what = "the best so far" if best is None or mean > best else f"the best has {best:.3f}"
        return self._end(trial, "COMPLETE", f"{trial.name}: {mean:.3f} ({by_seed}); {what}", mean)

    def _end(self, trial: Trial, state: str, text: str, value: float | None = None) -> None:
        import optuna

        self.active.remove(trial)
        if trial.number is not None:
            self.study.tell(trial.number, value, optuna.trial.TrialState[state])
        self.runner.print(text)

    def _is_behind(self, trial: Trial, ended: bool) -> bool:
        """Tell Optuna where a trial stands at every look that it has passed, and ask."""
        if trial.optuna is None:
            return False
        before = [self._value(curve) for curve in trial.curves[:-1]]
        first = LOOKS * len(before)
        for look in range(max(trial.told + 1, first), first + LOOKS):
            step = (look - first + 1) * trial.config.steps / LOOKS
            passed = [i for i, (at, _) in enumerate(trial.curves[-1]) if at >= step]
            if not passed and not (ended and trial.curves[-1]):
                return False
            upto = trial.curves[-1][: passed[0] + 1 if passed else None]
            trial.optuna.report(float(np.mean([*before, self._value(upto)])), look)
            trial.told = look
            if trial.optuna.should_prune():
                return True
        return False

    def _value(self, curve: Sequence[tuple[int, float]]) -> float:
        if not curve:
            return 0.0
        steps, rates = zip(*curve, strict=True)
        return area(steps, rates) if self.config.objective == "area" else float(rates[-1])

    # --------------------------------------------------------------------------------- the results

    def _trials(self, *states: str) -> list[optuna.trial.FrozenTrial]:
        return [trial for trial in self.study.trials if trial.state.name in states]

    def complete(self) -> list[optuna.trial.FrozenTrial]:
        """The finished trials, best first."""
        return sorted(self._trials("COMPLETE"), key=lambda trial: -(trial.value or 0.0))

    def _best_so_far(self) -> float | None:
        values = [t.value for t in self.complete() if t.value is not None]
        values += [] if self.baseline is None else [self.baseline]
        return max(values, default=None)

    def best(self) -> TrainConfig | None:
        """The settings with the highest value, which may be those that we began with."""
        found = self.complete()
        if not found or (self.baseline is not None and self.baseline >= (found[0].value or 0.0)):
            return self.config.base if self.baseline is not None else None
        return with_settings(self.config.base, settings_of(found[0].params))

    def importance(self) -> dict[str, float]:
        """The share of each setting in what makes the better trials better (PED-ANOVA), largest
        first; nothing if there are too few to say."""
        import optuna

        values = {trial.value for trial in self.complete()}
        if len(self.complete()) < LEAST_FOR_IMPORTANCE or len(values) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            return optuna.importance.get_param_importances(self.study, evaluator=evaluator)

    def write(self) -> list[Path]:
        """best.json, trials.csv and importance.png, as far as there is something to say."""
        written = []
        best = self.best()
        if best is not None:
            write_aside(self.directory / "best.json", config_file(replace(best, seed=0)))
            written.append(self.directory / "best.json")
        with open(self.directory / "trials.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["trial", "state", "value", *map(_seed, self.config.seeds), *self._names])
            for t in self.study.trials:
                by_seed = t.user_attrs.get("by_seed", [""] * len(self.config.seeds))
                value = t.value if t.state.name == "COMPLETE" else ""
                settings = [t.params.get(name, "") for name in self._names]
                rows.writerow([t.number, t.state.name.lower(), value, *by_seed, *settings])
        written.append(self.directory / "trials.csv")
        importance = self.importance()
        if importance:
            draw(self, importance, self.directory / "importance.png")
            written.append(self.directory / "importance.png")
        return written

    @property
    def _names(self) -> list[str]:
        return list(self.config.space)


def evaluations(run: GridRun) -> list[tuple[int, float]]:
    """Step and success of the evaluations of a training so far."""
    try:
        rows = read_metrics(run.run_dir)
    except (OSError, HindsightError):
        return []
    name = "eval/success_rate"
    return [(int(row["step"]), row[name]) for row in rows if name in row]


def shorter(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _seed(seed: int) -> str:
    return f"seed {seed}"


def draw(tuner: Tuner, importance: dict[str, float], path: Path) -> None:
    """The value of every trial, and how much each setting mattered."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.35 * max(len(importance), 6) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    done = sorted(tuner.complete(), key=lambda trial: trial.number)
    values = [trial.value or 0.0 for trial in done]
    left.plot([trial.number for trial in done], values, "o", label="a trial")
    left.step(
        [trial.number for trial in done],
        np.maximum.accumulate(values),
        where="post",
        label="best so far",
    )
    if tuner.baseline is not None:
        left.axhline(tuner.baseline, color="gray", linestyle="--", label="preset")
    area = tuner.config.objective == "area"
    left.set(xlabel="trial", ylabel="mean success over the training" if area else "last success")
    left.legend()
    names = list(importance)[::-1]
    right.barh(names, [importance[name] for name in names])
    right.set(xlabel="importance (PED-ANOVA)", xlim=(0, 1))
    figure.suptitle(f"{tuner.config.base.env}, {tuner.config.base.agent.method}")
    figure.savefig(path, dpi=120)


def show(tuner: Tuner, written: Sequence[Path], console: Console) -> None:
    """The best trials, what mattered, and what to do next."""
    names = {"COMPLETE": "finished", "PRUNED": "given up", "FAIL": "failed", "RUNNING": "under way"}
    counts = {text: len(tuner._trials(state)) for state, text in names.items()}
    said = ", ".join(f"{count} {text}" for text, count in counts.items() if count)
    console.print(f"\n{len(tuner.study.trials)} trials: {said or 'none'}", highlight=False)
    complete = tuner.complete()
    if not complete and tuner.baseline is None:
        return
    # the settings stand in lines, because there may be more of them than a screen has columns
    table = Table("", *(f"trial {t.number}" for t in complete[:4]), "preset", box=None)
    preset = "-" if tuner.baseline is None else f"{tuner.baseline:.3f}"
    table.add_row("value", *(f"{t.value:.3f}" for t in complete[:4]), preset)
    base = plain(tuner.config.base)
    for name in tuner.config.space:
        now: Any = base
        for part in name.split("."):
            now = now[part]
        values = (shorter(t.params.get(name, "-")) for t in complete[:4])
        table.add_row(name, *values, shorter(now))
    console.print(table, highlight=False)
    importance = tuner.importance()
    if importance:
        text = ", ".join(f"{name} {share:.2f}" for name, share in importance.items())
        console.print(f"what mattered: {text}", highlight=False, soft_wrap=True)
    if complete and tuner.baseline is not None and (complete[0].value or 0) <= tuner.baseline:
        console.print("no trial was better than the preset", highlight=False)
    for path in written:
        console.print(f"{path.stem}: {path}", highlight=False, soft_wrap=True)
    best = tuner.directory / "best.json"
    if best in written:
        sweep = f"hindsight sweep {tuner.config.base.env} --config {best} --seeds 0 1 2 3 4"
        console.print(
            "The best value flatters: it was chosen by it. To measure it on other seeds:\n"
            f"next: {sweep}",
            highlight=False,
            soft_wrap=True,
        )
