"""The parts of `experiments.first_light`, in order of what they tell."""

import argparse
import functools
import importlib.util
import json
import pathlib
from typing import Any

from experiments.first_lighting.session import Part, Session, outcome_of, write_result
from experiments.first_lighting.training import describe_training, summarize
from experiments.forecasting import targets
from experiments.reproduce import ROWS
from vit_jax.errors import UserError

# Of a training besides its steps: start, compilation, evaluations, checkpoints.
_OVERHEAD_SECONDS = 75
# Commands that train are asked to stop this long before the time is up.
_RESERVE_SECONDS = 20
_MOST_EQUAL_SECONDS, _FEWEST_EQUAL_SECONDS = 480, 60
_PLAN = "equal_time/plan.json"
# Of the benchmark: model, batch size, settings with --small.
_TORCH_MODELS = {
    "vit_ti": (1024, {"width": 16, "depth": 1, "num_heads": 2}),
    "resnet18": (512, {"width": 8}),
}
# The forecasts that are kept: TARGET/NAME/forecast.json of `experiments.forecast`.
FORECASTS = pathlib.Path(__file__).parents[1] / "forecasts"


def read_forecast(config: str, device: str) -> dict[str, float] | None:
    """Milliseconds of a config's train step, forecast for a device; None without one.

    Args:
      config: as the forecast was asked for, "configs/NAME.py:VARIANT".
      device: as JAX calls it; each target names its own.

    Returns:
      "floor", "expected" and "pessimistic".
    """
    for file in FORECASTS.glob("*/*/forecast.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        devices = targets.load_target(file.parts[-3]).devices
        if device in devices and content["config"] == config:
            return content["step_ms"]
    return None


def _measure(module: str, name: str, config: str | None, session: Session):
    """A worker that writes its result at once."""
    file = session.options.out / "workers" / f"{name}.json"
    arguments = [f"--data={session.options.data}", f"--result={file}"]
    arguments += [f"--config={config}"] if config else []
    outcome = outcome_of(
        session.run(f"experiments.first_lighting.{module}", *arguments)
    )
    return outcome | (json.loads(file.read_text()) if outcome["finished"] else {})


def _first_steps(name: str, config: str, session: Session) -> dict[str, Any]:
    result = _measure("first_steps", name, config, session)
    if not result["finished"]:
        return result
    measured = 1e3 * result["step_seconds"]["median"]
    forecast = read_forecast(config, result["device"])
    losses = result["mean_losses"]
    line = (
        f"{config}: {measured:.2f} ms a step, {result['dtype']} on "
        f"{result['device']}, loss {losses[0]:.3f} to {losses[-1]:.3f}, compilations "
        f"{result['compilations']}, same bits {result['same_bits']}"
    )
    if forecast is not None:
        line += f", forecast {forecast['expected']:.2f} ms"
    return result | {"forecast_step_ms": forecast, "summary": [line]}


def _resume(session: Session) -> dict[str, Any]:
    result = _measure("resume", "resume", None, session)
    lines = [
        f"{name}: resumed at step {run['interrupted_at']}, same bits {run['same_bits']}"
        for name, run in result.items()
        if isinstance(run, dict) and "same_bits" in run
    ]
    return result | {"summary": lines}


def _attention(session: Session) -> dict[str, Any]:
    arguments = ["--models=vit_cifar,vit_ti", "--batch_size=512"]
    if session.options.small:
        arguments = ["--models=vit_cifar", "--batch_size=4", "--repeats=2"]
        arguments += _small_settings(_TORCH_MODELS["vit_ti"][1])
    result = _benchmark("attention", session, "--attention", *arguments)
    for model, rows in result.get("models", {}).items():
        for name in ("plain", "xla", "cudnn"):
            line = rows[name].get("error")
            if line is None:
                line = (
                    f"{1e3 * rows[name]['seconds']['median']:.3f} ms, gradients' error "
                    f"{rows[name]['relative_errors']['gradients']:.1e}"
                )
            result["summary"].append(f"{model} {name}: {line}")
    return result


def _torch_step(model: str, mode: str, session: Session) -> dict[str, Any]:
    batch_size, small = _TORCH_MODELS[model]
    arguments = [f"--models={model}", f"--batch_size={batch_size}"]
    if session.options.small:
        arguments = [f"--models={model}", "--batch_size=8", "--repeats=2"]
        arguments += _small_settings(small)
    if importlib.util.find_spec("torch"):
        arguments += ["--against=torch", f"--torch_mode={mode}"]
    result = _benchmark(f"torch-{mode}-{model}", session, *arguments)
    for name, seconds in result.get("step_seconds", {}).items():
        line = f"{model} {name}: {1e3 * seconds['median']:.2f} ms a step"
        result["summary"].append(line)
    # PyTorch's step is eager where it could not be compiled.
    if "torch_mode" in result:
        result["summary"].append(f"{model}: PyTorch's mode is {result['torch_mode']}")
    return result


def _small_settings(settings: dict[str, int]) -> list[str]:
    model = [f"--config.model.{key}={value}" for key, value in settings.items()]
    return ["--config.augment.policy=none", *model]


def _benchmark(name: str, session: Session, *arguments: str) -> dict[str, Any]:
    """The result that `experiments.benchmark` writes as its only file."""
    out = session.options.out / "workers" / name
    outcome = outcome_of(
        session.run("experiments.benchmark", *arguments, f"--out={out}")
    )
    files = out.glob("*.json") if outcome["finished"] else ()
    return functools.reduce(lambda a, f: a | json.loads(f.read_text()), files, outcome)


def _train(
    module: str, name: str, session: Session, *arguments: str, with_test: bool = True
) -> dict[str, Any]:
    """A command that trains runs below OUT/NAME, and what they have reached."""
    out = session.options.out / name
    left = session.seconds_left()
    reserve = 0 if session.options.small else _RESERVE_SECONDS
    if module == "experiments.search":
        arguments = (*arguments, f"--record={out / 'record.json'}")
        if session.options.small:  # All images held out are scored by each evaluation.
            arguments = (*arguments, "--config.data.validation=500")
    status = session.run(
        module,
        f"--data={session.options.data}",
        f"--out={out}",
        f"--time_limit_seconds={max(0.0, left - reserve):.0f}",
        "--retry",  # A run may have failed for the disk or the memory of its time.
        *arguments,
    )
    runs = describe_training(out, with_test)
    return outcome_of(status) | {"runs": runs, "summary": summarize(runs)}


def _equal_time(seeds: int, session: Session) -> dict[str, Any]:
    """The flagship and the ResNet-18, each for the same seconds of training."""
    seconds = planned_seconds(session.options)
    if seconds is None:
        seconds = equal_seconds(session)
        write_result(session.options.out / _PLAN, {"seconds": seconds})
    result = _train(
        "experiments.search", "equal_time", session, "--study=flagship", "--final",
        f"--seeds={seeds}", f"--config.time_budget={seconds:.0f} seconds",
    )  # fmt: skip
    return {"seconds": seconds} | result


def planned_seconds(options: argparse.Namespace) -> float | None:
    """The time that an earlier call gave each model; None where there was none.

    Raises:
      UserError: another time is asked for.
    """
    plan = options.out / _PLAN
    if not plan.exists():
        return None
    seconds, asked = json.loads(plan.read_text())["seconds"], options.equal_minutes
    if asked and 60 * asked != seconds:
        raise UserError(
            f"--equal_minutes is {asked:g}, but the trainings in {plan.parent} take "
            f"{seconds / 60:.3g} minutes; leave it out or give another --out."
        )
    return seconds


def equal_seconds(session: Session) -> float:
    """Of each of two trainings: what was asked for, or what is left for them."""
    if session.options.equal_minutes:
        return 60 * session.options.equal_minutes
    if session.options.small:
        return 1.0
    each = (session.seconds_left() - _RESERVE_SECONDS) / 2 - _OVERHEAD_SECONDS
    return min(_MOST_EQUAL_SECONDS, max(_FEWEST_EQUAL_SECONDS, each))


def _race(seeds: int, session: Session) -> dict[str, Any]:
    return _train(
        "experiments.search", "race", session, "--study=fast", "--final",
        f"--seeds={seeds}",
    )  # fmt: skip


def _arms(study: str, session: Session) -> dict[str, Any]:
    # Two arms are enough to see that the command works.
    arguments = ["--arms=base,adamw"] if session.options.small else []
    if study == "flagship":
        arguments.append("--epochs=40")
    return _train(
        "experiments.search", f"arms-{study}", session, f"--study={study}",
        "--seeds=1", *arguments, with_test=False,
    )  # fmt: skip


def _studies(session: Session) -> dict[str, Any]:
    only = ["--only=vit_256x6"] if session.options.small else []
    return _train("experiments.reproduce", "studies", session, "--seeds=1", *only)


def _steps_of(config: str) -> Part:
    stem = config.removeprefix("configs/").replace(".py", "").replace(":", "-")
    name = f"steps-{stem}"
    return Part(name, 60, functools.partial(_first_steps, name, config))


def _torch_parts(mode: str) -> list[Part]:
    return [
        Part(f"torch-{mode}-{model}", 120, functools.partial(_torch_step, model, mode))
        for model in _TORCH_MODELS
    ]


OURS = ("configs/vit_cifar.py", "configs/resnet_cifar.py", "configs/vit_cifar_fast.py")
OURS += ("configs/resnet_cifar.py:fast", "configs/vit_192x12.py")


def make_parts(small: bool) -> list[Part]:
    """All parts; `small` leaves out those that only repeat another one's code."""
    equal = 2 * (_FEWEST_EQUAL_SECONDS + _OVERHEAD_SECONDS)
    studied = [row.config for row in ROWS.values() if row.config not in OURS]
    return [
        Part("race", 180, functools.partial(_race, 1)),
        Part("equal_time", equal, functools.partial(_equal_time, 1)),
        *map(_steps_of, OURS[:2] if small else OURS),
        *_torch_parts("default"),
        Part("attention", 90, _attention),
        Part("resume", 150, _resume),
        *([] if small else _torch_parts("reduce-overhead")),
        *([] if small else _torch_parts("max-autotune")),
        Part(
            "equal_time-seeds", equal, functools.partial(_equal_time, 2 if small else 3)
        ),
        Part("race-seeds", 180, functools.partial(_race, 2 if small else 5)),
        Part("arms-flagship", 120, functools.partial(_arms, "flagship")),
        *([] if small else [Part("arms-fast", 120, functools.partial(_arms, "fast"))]),
        *([] if small else map(_steps_of, studied)),
        Part("studies", 120, _studies),
    ]
