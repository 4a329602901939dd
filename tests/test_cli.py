"""The command line as a user meets it: every mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hindsight.cli import main
from hindsight.envs.bit_flip import BitFlipEnv
from hindsight.options import take_env_kwargs

QUICK = ["--gradient-steps", "4", "--batch-size", "32", "--eval-episodes", "4", "--quiet"]
TESTS = str(Path(__file__).parent)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_arguments_of_an_env() -> None:
    text = "train Env-v0 --env.a false --env.b=True --env.c-d 0.5 --env.e none --env.f (1,2) --x"
    kwargs = {"a": False, "b": True, "c_d": 0.5, "e": "none", "f": (1, 2)}
    assert take_env_kwargs(text.split()) == (["train", "Env-v0", "--x"], kwargs)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "bits"
    command = [
        "train",
        "hindsight/BitFlip-v0",
        "--env.bits",
        "4",
        "--steps",
        "600",
        "--run-dir",
        str(path),
        *QUICK,
    ]
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "Did you mean 'train'"),
        (["train"], "which env?"),
        (["train", "FetchPsh-v4"], "Did you mean 'FetchPush-v4'"),
        (["train", "no_such_module:Env-v0"], "no_such_module.py is not in this directory"),
        (["train", "CartPole-v1"], "is not a goal env"),
        (["train", "hindsight/BitFlip-v0", "--agent.gama", "0.9"], "Did you mean --agent.gamma"),
        (["train", "hindsight/BitFlip-v0", "--agent.gamma", "1.5"], "agent.gamma must be"),
        (["train", "hindsight/BitFlip-v0", "--agent.random-actions", "lineal(1,0)"], "linear"),
        (["train", "hindsight/BitFlip-v0", "--seed", "x"], "--seed"),
        (["train", "hindsight/BitFlip-v0", "--replay.goal-rule", "past"], "goal_rule 'past'"),
        (["train", "hindsight/BitFlip-v0", "--preset", "papr"], "paper"),
        (["train", "hindsight/BitFlip-v0", "--preset", "paper", "--method", "hpg"], "one of replay"),
        (["train", "hindsight/BitFlip-v0", "--priority.queues", "two_queues"], "goals_chosen"),
        (["train", "FetchPush-v4", "--priority.sampling", "rank"], "moved_power"),
        (["train", "hindsight/BitFlip-v0", "--env.bots", "3"], "bots"),
        (["train", "hindsight/BitFlip-v0", "--env.bits", "0"], "bits must be at least 1"),
        (["train", "hindsight/BitFlip-v0", "--env.bits"], "needs a value"),
        (["train", "--config", "/no/such/config.json"], "does not exist"),
        (["train", "hindsight/BitFlip-v0", "--run-dir", TESTS], "exists"),
        (["train", "hindsight/BitFlip-v0", "--run-dir", "/proc/run"], "cannot write"),
        (["eval", "/no/such/run"], "does not exist"),
        (["eval", TESTS], "no config.json"),
        (["eval", TESTS, "--episodes", "0"], "at least 1"),
        (["watch", TESTS], "no config.json"),
        (["plot"], "which runs"),
        (["resume", "/no/such/run"], "does not exist"),
        (["resume", TESTS], "there is no run in"),
        (["verify", "/no/such/run"], "does not exist"),
        (["list"], "Did you mean 'envs'"),
        (["bench"], "python -m benchmarks"),
        (["train", "FetchReach-v4", "--lr", "1e-3"], "Did you mean --agent.actor-learning-rate"),
        (["train", "FetchReach-v4", "--tau", "0.1"], "Did you mean --agent.tau"),
        (["train", "FetchReach-v4", "--buffer-size", "100"], "Did you mean --replay.buffer-size"),
        (["train", "FetchReach-v4", "--n-sampled-goal", "4"], "Did you mean --replay.replay-k"),
        (["train", "FetchReach-v4", "--total-timesteps", "9"], "Did you mean --steps"),
        (["train", "FetchReach-v4", "--method", "sac", "--ent-coef", "1"], "Did you mean --agent.temperature"),
        (["train", "FetchReach-v4", "--steps", "many"], "--steps 'many': it takes a whole number"),
        (["train", "FetchReach-v4", "--method", "pp"], "Did you mean 'ppo'"),
        (["train", "FetchReach-v4", "--method", "dqn"], "whose actions are continuous"),
        (["train", "FetchReach-v4", "--method", "ppo", "--batch-size", "9"], "--batch-size is not for ppo"),
        (["train", "FetchReach-v4", "--priority.alpha", "0.5"], "changes nothing"),
        (["train", "hindsight/PointPush-v0", "--method", "ppo", "--preset", "relay"], "use --relay"),
        (["train", "hindsight/PointPush-v0", "--method", "ppo", "--agent.estimator", "step"], "or set agent.critic state"),
        (["train", "FetchReach-v4", "--method", "ppo", "--agent.policy-updates", "2"], "or set agent.critic action"),
        (["train", "FetchReach-v4", "--method", "hpg", "--agent.critic", "action"], "a2c, a3c, ppo and trpo have"),
        (["train", "FetchReach-v4", "--method", "trpo", "--agent.learning-rate", "0.1"], "agent.learning_rate changes nothing, as trpo"),
        (["train", "FetchReach-v4", "--method", "ppo", "--agent.no-hindsight", "--agent.goals=8"], "agent.goals changes nothing, without agent.hindsight"),
        (["train", "FetchReach-v4", "--method", "hpg", "--agent.no-hindsight", "--agent.spread"], "agent.spread changes nothing"),
        (["resume"], "RUN is missing"),
        (["eval", "x", "--epsiodes", "3"], "Did you mean --episodes"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, _, error = call(capsys, *arguments)
    assert code == 2
    assert error.count("\n") == 1, error
    assert error.startswith("hindsight: ")
    assert message in error


def test_nan_in_observations_during_training(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, error = call(capsys, "train", "test/NaN-v0", "--run-dir", tmp_path / "run", *QUICK)
    assert code == 2
    assert error.count("\n") == 1
    assert "NaN" in error


def test_help_lists_commands_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert "doctor" in call(capsys, "--help")[1]
    common = call(capsys, "train", "--help")[1]
    options = {"ENV", "--method", "--preset", "--steps", "--replay-k", "--help-all", "--run-dir"}
    assert all(option in common for option in options)
    assert len(re.findall(r"^\W*--[a-z]", common, re.M)) <= 17, "the common options only"
    assert "--replay.replay-k" in call(capsys, "train", "--help-all")[1]
    assert "--agent.clip " in call(capsys, "train", "--help-all", "--method", "ppo")[1]
    words = " ".join(re.sub(r"[│|]", " ", common).split())
    assert "replayed-ac. On-policy, by policy gradients: hpg" in words
    assert "--agent.double" in call(capsys, "train", "hindsight/BitFlip-v0", "--help-all")[1]
    assert "0.96-1.00 in 3 minutes" in " ".join(
        call(capsys, "train", "FetchPush-v4", "--help")[1].split()
    )
    assert re.match(r"hindsight \d", call(capsys, "--version")[1])


def test_eval_json(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    code, out, _ = call(capsys, "eval", run, "--episodes", "7", "--json")
    assert code == 0
    result = json.loads(out)
    assert set(result) == {"success_rate", "mean_return", "episodes"}
    assert result["episodes"] == 7
    assert json.loads(call(capsys, "eval", run, "--episodes", "7", "--json")[1]) == result


def test_a_variant_does_not_reach_what_its_task_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert "reaches success" in call(capsys, "train", "FetchPush-v4", "--help")[1]
    assert "reaches success" not in call(capsys, "train", "FetchPushDense-v4", "--help")[1]


def test_config_repeats_a_run(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    code, _, _ = call(
        capsys, "train", "--config", run / "config.json", "--run-dir", tmp_path / "again", "--quiet"
    )
    assert code == 0
    assert (tmp_path / "again" / "policy.safetensors").read_bytes() == (
        run / "policy.safetensors"
    ).read_bytes()
    assert (tmp_path / "again" / "config.json").read_text() == (run / "config.json").read_text()


def test_watch_and_plot_write_files(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    assert call(capsys, "watch", run, "--episodes", "1", "-o", tmp_path / "v.mp4")[0] == 0
    assert (tmp_path / "v.mp4").read_bytes()[4:8] == b"ftyp"
    assert call(capsys, "watch", run, "--episodes", "1", "-o", tmp_path / "v.gif")[0] == 0
    assert (tmp_path / "v.gif").read_bytes()[:6] == b"GIF89a"
    assert call(capsys, "plot", run, "-o", tmp_path / "c.png")[0] == 0
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    assert (run / "learning_curve.png").exists()


@pytest.mark.parametrize("method", ["reset", "step"])
def test_an_env_that_raises_while_it_is_watched(
    method: str,
    capsys: pytest.CaptureFixture[str],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only where it is drawn: what it does while it is inspected is told already."""
    works = getattr(BitFlipEnv, method)

    def fails(env: BitFlipEnv, *arguments: Any, **named: Any) -> Any:
        if env.render_mode is not None:
            raise RuntimeError("a motor\nis broken")
        return works(env, *arguments, **named)

    monkeypatch.setattr(BitFlipEnv, method, fails)
    code, _, error = call(capsys, "watch", run, "-o", tmp_path / "v.mp4")
    assert code == 2
    assert error.count("\n") == 1
    assert f"hindsight/BitFlip-v0: {method}() raised RuntimeError: a motor is broken" in error


def test_window_needs_a_screen(
    capsys: pytest.CaptureFixture[str], run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    code, _, error = call(capsys, "watch", run, "--window")
    assert code == 2
    assert "no screen" in error


def test_doctor_and_envs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "doctor", "FetchPush-v4")
    assert "FetchPush-v4 keeps the goal-env contract" in out
    assert code == (2 if "FAIL" in out else 0)
    assert call(capsys, "doctor", "CartPole-v1")[0] == 2


def test_envs_are_listed_with_goals_and_what_is_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = call(capsys, "envs")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert {"hindsight/FourRooms-v0", "PointMaze_UMaze-v3", "AntMaze_UMaze-v5"} <= set(lines)
    assert not {"FetchPush-v1", "AntMaze_UMaze-v4", "HandReach-v0"} & set(lines)  # old versions
    cells = re.split(r"  +", lines["FetchReach-v4"].strip())
    assert cells == ["FetchReach-v4", "move the gripper to a place", "1.00", "3", "0.5"]
    assert lines["FetchPush-v4"].split()[-3:] == ["0.96-1.00", "5", "3"]
    assert lines["PointMaze_UMaze-v3"].split()[-4:] == ["0.98-1.00", "3", "<", "18"]
    assert lines["AntMaze_Large-v5"].rstrip().endswith("through a maze")  # not measured


def test_envs_fit_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    out = re.sub(r"\x1b\[[\d;]*m", "", call(capsys, "envs")[1])
    table = out.partition("\n\n")[0].splitlines()
    assert "…" not in out
    assert all(len(line) <= 80 for line in table)
    assert all(re.match(r"(task|[\w/]+-v\d+)  ", line) for line in table)  # one line for each


def test_a_broken_policy_is_one_line(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text((run / "config.json").read_text())
    (tmp_path / "policy.json").write_text((run / "policy.json").read_text())
    (tmp_path / "policy.safetensors").write_bytes(b"garbage")
    code, _, error = call(capsys, "eval", tmp_path)
    assert code == 2
    assert error.count("\n") == 1
    assert "broken" in error


def test_resume_and_verify(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    code, _, error = call(capsys, "resume", tmp_path / "run")
    assert code == 2
    assert "--steps" in error
    assert call(capsys, "resume", tmp_path / "run", "--steps", "100", "--quiet")[0] == 0
    code, out, _ = call(capsys, "verify", tmp_path / "run")
    assert code == 0
    assert "ok       config.json" in out
    (tmp_path / "run" / "config.json").write_text("{}")
    code, out, _ = call(capsys, "verify", tmp_path / "run")
    assert code == 1
    assert "BROKEN   config.json" in out


def test_config_with_another_env_or_argument_records_what_was_trained(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    config, more = run / "config.json", ["--steps", "100", "--quiet"]
    assert (
        call(
            capsys,
            "train",
            "--config",
            config,
            "--env.bits",
            "3",
            "--run-dir",
            tmp_path / "a",
            *more,
        )[0]
        == 0
    )
    assert json.loads((tmp_path / "a" / "config.json").read_text())["env_kwargs"] == {"bits": 3}
    other = ["hindsight/EmptyRoom-v0", "--config", config, "--run-dir", tmp_path / "b", *more]
    assert (
        call(capsys, "train", *other)[0] == 2
    )  # --config brings bits=4, which a room does not take


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "x" * 300], "File name too long"),
        (["train", "hindsight/BitFlip-v0", "--env.bits", "8.5"], "cannot make"),
        (["train", ":X-v0"], "cannot make"),
        (["train", "hindsight/BitFlip-v0", "--env.random-start", "{1}"], "cannot be written"),
        (
            ["train", "hindsight/BitFlip-v0", "--seed", "9" * 400],
            "seed must be at least 0 and below",
        ),
        (
            [
                "train",
                "hindsight/BitFlip-v0",
                "--run-dir",
                "hindsight/EmptyRoom-v0",
                "hindsight/FourRooms-v0",
            ],
            "unknown",
        ),
        (["eval", TESTS, "--seed", "-1"], "--seed must be 0 or more"),
        (["doctor", "CartPole-v1", "--max-episode-steps", "x"], "--max-episode-steps"),
    ],
)
def test_odd_mistakes(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, _, error = call(capsys, *arguments)
    assert code == 2
    assert error.count("\n") == 1, error
    assert message in error


def test_odd_output_names(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    for arguments in (
        ["watch", run, "-o", "/no/dir/v.mp4"],
        ["watch", run, "-o", "v.txt"],
        ["plot", run, "-o", "c.xyz"],
    ):
        code, _, error = call(capsys, *arguments)
        assert code == 2
        assert "cannot write" in error
    code, _, error = call(capsys, "plot", run, "-o", "/no/dir/c.png")
    assert code == 2
    assert error.count("\n") == 1


def test_a_reader_that_leaves_is_no_error_message() -> None:
    command = f"{sys.executable} -m hindsight.cli train --help | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command", [["--help"], ["--version"], ["train", "--help"], ["envs"], ["verify"]]
)
def test_commands_that_learn_nothing_start_without_jax(command: list[str], run: Path) -> None:
    script = (
        "import sys\nfrom hindsight.cli import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    assert 'jax' not in sys.modules"
    )
    arguments = [*command, str(run)] if command == ["verify"] else command
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_names_of_the_package_come_without_jax_until_they_need_it() -> None:
    script = (
        "import sys, hindsight\n"
        "assert set(hindsight.__all__) <= set(dir(hindsight))\n"
        "hindsight.Run, hindsight.Policy\n"
        "assert 'jax' not in sys.modules\n"
        "assert all(getattr(hindsight, name) for name in hindsight.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_env_in_a_file_of_the_current_directory(tmp_path: Path) -> None:
    """As docs/your-env.md says it, with the installed command, and in processes of its own."""
    shutil.copy(Path(TESTS).parent / "examples" / "own_env.py", tmp_path / "my_module.py")
    command = Path(sys.executable).with_name("hindsight")
    quick = [*QUICK, "--steps", "60", "--run-dir", "run", "--simulator", "processes"]
    for arguments in (["doctor"], ["train", *quick]):
        name, *options = arguments
        done = subprocess.run(
            [command, name, "my_module:Boat-v0", *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
