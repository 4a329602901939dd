"""Writes the files of a run while it trains. What cannot be written is told, or stops the run,
as the settings say."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

from hindsight.errors import EnvFailed
from hindsight.saving.appended import Events, Rows
from hindsight.saving.checkpoints import Checkpoint, Snapshot
from hindsight.saving.files import refuse_links, sealed, tensor_parts, write_aside, write_synced
from hindsight.saving.lock import RunLock
from hindsight.saving.metrics import METRICS
from hindsight.saving.mirror import Mirror
from hindsight.saving.saver import SaveFailed, Saver
from hindsight.saving.tree import State
from hindsight.training.conditions import conditions
from hindsight.training.guard import Diverged, check_saved
from hindsight.training.policy import POLICY
from hindsight.training.progress import Progress
from hindsight.training.run import CONFIG, SUMMARY, Run, config_file, machine, versions


class RunWriter:
    """Metrics after every cycle, the policy after every evaluation, checkpoints as the settings
    say, then the summary.

    Made with the checkpoint from which a training goes on, it first takes the metrics back to
    there. The lock is the caller's: it must be held, and nothing is written where the directory
    is no longer the one that it locks.
    """

    def __init__(
        self,
        run: Run,
        lock: RunLock,
        resumed: Checkpoint | None = None,
        mirror: Mirror | None = None,
    ) -> None:
        self.run = run
        self._resumed = resumed
        lock.check()
        refuse_links(run.path)
        rows: list[dict[str, float]] = []
        write_aside(run.path / METRICS, b"" if resumed is None else resumed.metrics)
        if resumed is not None:
            write_aside(run.path / CONFIG, config_file(run.config))
            rows = run.metrics
        rates = [row["eval/success_rate"] for row in rows if "eval/success_rate" in row]
        self._evaluated: float | None = rates[-1] if rates else None
        self._best = max(rates, default=0.0)
        self._saver = Saver(
            run.checkpoints,
            run.config.checkpoint.when_failed,
            rows[-1].get("time/checkpoint", 0.0) if rows else 0.0,
            lock.check,
            mirror,
        )
        self._saver.last = resumed
        self._metrics = Rows(run.path / METRICS)
        board = run.path / "tensorboard"
        begun = 0 if board.exists() else None  # before its first checkpoint
        self._board = Events(board, begun if resumed is None else resumed.step + 1)
        self._last: Progress | None = None
        self._saved = (
            -1 if resumed is None else resumed.cycle
        )  # the cycle of the last checkpoint that was begun
        self._before = rows[-1] if rows else {"step": 0, "time/total": 0.0}

    def write(self, progress: Progress) -> None:
        """Take in where the training stands after a cycle. Raises Diverged if its policy must
        not be saved."""
        check_saved(progress.policy.export_state(), progress.step)
        self._last = progress
        self._saver.poll()
        row = {"cycle": progress.cycle, "step": progress.step, **progress.metrics}
        row["time/checkpoint"] = self._saver.stalled
        self._saver.attempt(self._metrics.path, lambda: self._metrics.add(row))
        self._saver.attempt(
            self._board.directory,
            lambda: self._board.add(progress.metrics, progress.step),
            vital=False,
        )
        if progress.evaluation is not None:
            self._evaluated = progress.evaluation.success_rate
            self._best = max(self._best, self._evaluated)
            self._saver.attempt(self.run.path, lambda: progress.policy.save(self.run.path))
        minutes, waited = self.run.config.checkpoint.minutes, self._saver.minutes_since()
        if (
            self._saved < 0
            or waited >= 2 * minutes
            or (waited >= minutes and progress.evaluation is not None)
        ):
            self._checkpoint(progress)

    def _checkpoint(self, progress: Progress) -> None:
        """Save everything, unless it is saved, or a cycle is half done."""
        learning = progress.learning
        if learning is None or learning.cycle != progress.cycle or self._saved == progress.cycle:
            return
        evaluation = progress.evaluation
        self._saved = progress.cycle

        def state() -> State:
            exported = learning.export_state()
            check_saved(exported, progress.step)
            return exported

        self._saver.save(
            lambda: Snapshot(
                progress.cycle,
                progress.step,
                None if evaluation is None else evaluation.success_rate,
                state(),
                config_file(self.run.config),
                self._metrics.path,
                self._metrics.size,
                conditions(),
            )
        )

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Save everything as it is after the last whole cycle, unless the error is that it
        cannot be, or must not."""
        found: Diverged | None = error if isinstance(error, Diverged) else None
        try:
            if found is None and self._last is not None and not isinstance(error, SaveFailed):
                try:
                    self._save_all(self._last)
                except Diverged as diverged:
                    found, kind = diverged, kind or Diverged
            if found is not None:
                self._keep_batch(found)
            if isinstance(error, EnvFailed):
                self._keep_traceback(error)
            content = sealed(self._summary(kind))
            self._saver.attempt(
                self.run.path, lambda: write_aside(self.run.path / SUMMARY, content)
            )
            self._saver.copy_files([self.run.path / name for name in (*POLICY, SUMMARY)])
            if error is None and found is not None:
                raise found
        except SaveFailed:
            if error is None:
                raise
        finally:
            self._saver.close()
            self._metrics.close()
            self._board.close()

    def _save_all(self, last: Progress) -> None:
        """The last checkpoint and policy of this session."""
        self._saver.when_failed = "stop"  # there is no going on
        self._checkpoint(last)
        self._saver.wait()
        self._saver.attempt(self.run.path, lambda: last.policy.save(self.run.path))

    def _keep_batch(self, error: Diverged) -> None:
        """Save what a quantity that is not finite comes from, and tell where."""
        path = self.run.path / "diverged.safetensors"
        if not error.batch:
            return

        def write() -> None:
            write_synced(path, tensor_parts(error.batch))

        if self._saver.attempt(path, write):
            error.args = (f"{error}. What it comes from is in {path}",)

    def _keep_traceback(self, error: EnvFailed) -> None:
        """Write down what the env's own code raised, and where, and tell it."""
        path = self.run.path / "traceback.txt"
        text = "".join(traceback.format_exception(error.__cause__))
        if self._saver.attempt(path, lambda: write_aside(path, text.encode(errors="replace"))):
            error.args = (f"{error}. Its traceback is in {path}",)

    def _summary(self, kind: type[BaseException] | None) -> dict[str, Any]:
        config, last = self.run.config, self._last
        done = (
            last.done if last else self._resumed is not None and self._resumed.step >= config.steps
        )
        status = "finished" if done else "stopped"
        if kind is not None:
            interrupted = issubclass(kind, (KeyboardInterrupt, SystemExit))
            status = "interrupted" if interrupted else "failed"
        return {
            "status": status,
            "env": config.env,
            "method": config.agent.method,
            "seed": config.seed,
            "steps": last.step if last else self._before["step"],
            "minutes": round((last.metrics if last else self._before)["time/total"] / 60, 3),
            "success_rate": self._evaluated,
            "best_success_rate": self._best if self._evaluated is not None else None,
            "eval_episodes": config.last_eval_episodes
            if status == "finished"
            else config.eval_episodes,
            "machine": machine(),
            "versions": dict(versions()),
        }
