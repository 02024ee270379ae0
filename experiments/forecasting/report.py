"""A forecast as numbers, and the numbers as a table."""

import dataclasses
import math
from typing import Any

import jax

from experiments.forecasting import budget, programs
from experiments.forecasting.targets import Target
from vit_jax.training import dispatch
from vit_jax.training.experiment import Experiment


def describe(experiment: Experiment, target: Target) -> dict[str, Any]:
    """The forecast of a run: `step_ms` of a train step, and what it is made of.

    `experiment` is of `programs.make_described`; its programs are compiled here. Times
    are in seconds unless their names say otherwise; "floor", "expected" and
    "pessimistic" follow from `budget.ASSUMPTIONS`.
    """
    plan = experiment.plan
    train = _describe_program(programs.compile_training(experiment), target)
    evaluate = _describe_program(programs.compile_evaluation(experiment), target)
    initialise = _describe_program(programs.compile_initialisation(experiment), target)
    step_ms = train["ms"]
    dispatches = list(dispatch.plan_dispatches(plan, 0, train["num_steps"]))
    num_computed = len(dispatches) * train["num_steps"]
    num_val = len(experiment.splits.get("val", ()))
    num_evaluations = math.ceil(plan.total_steps / plan.eval_every)
    num_eval_batches = math.ceil(num_val / experiment.eval_batch_size) * num_evaluations
    peak = max(p["peak_gigabytes"] for p in (train, evaluate, initialise))
    return {
        "target": target.name,
        "jax": jax.__version__,
        "batch_size": experiment.config.batch_size,
        "steps": plan.total_steps,
        "step_ms": step_ms,
        "epoch_seconds": {
            k: v * plan.steps_per_epoch / 1e3 for k, v in step_ms.items()
        },
        "train_seconds": {k: v * num_computed / 1e3 for k, v in step_ms.items()},
        "evaluation_seconds": {
            k: v * num_eval_batches / 1e3 for k, v in evaluate["ms"].items()
        },
        "peak_gigabytes": peak,
        # The part of the memory that JAX takes by default.
        "fits": peak * 1e9 < 0.75 * target.memory_bytes,
        "dispatches": len(dispatches),
        "train": train,
        "evaluate": evaluate,
        "initialise": initialise,
        "assumptions": {
            name: dataclasses.asdict(assumed)
            for name, assumed in budget.ASSUMPTIONS.items()
        },
    }


def _describe_program(program: programs.Program, target: Target) -> dict[str, Any]:
    costs, steps = budget.costs(program.text), program.num_steps
    return {
        "num_steps": steps,
        "ms": budget.milliseconds(costs, target, steps),
        "kinds": budget.summarise(costs, target, steps),
        "wide_products": {
            name: {key: value / steps for key, value in row.items()}
            for name, row in budget.wide_products(costs).items()
        },
        "host_callbacks": budget.host_callbacks(program.text),
        "peak_gigabytes": program.peak_bytes / 1e9,
        "compile_seconds": program.compile_seconds,
    }


def as_markdown(result: dict[str, Any]) -> str:
    """The forecast as text; its numbers are no measurement."""
    train = result["train"]
    lines = [
        f"# Forecast of `{result['config']}` on {result['target']}",
        "",
        "Computed from the compiled programs and public figures of the GPU; nothing "
        "was measured.",
        "",
        "| | floor | expected | pessimistic |",
        "|---|---|---|---|",
        _row("train step, ms", result["step_ms"]),
        _row("epoch, s", result["epoch_seconds"]),
        _row(f"run of {result['steps']:,} steps, s", result["train_seconds"]),
        _row("its evaluations, s", result["evaluation_seconds"]),
        "",
        *(
            f"* {name}: {one['memory']:.0%} of the memory's rate, "
            f"{one['products']:.0%} of the products' and {one['scalars']:.0%} of the "
            f"other operations', {one['launch_microseconds']:g} µs a kernel"
            for name, one in result["assumptions"].items()
        ),
        "",
        f"Batches of {result['batch_size']} images. A train step has "
        f"{train['kinds']['all']['kernels']:,.0f} kernels:",
        "",
        "| kind | kernels | GB | GFLOP of products | expected ms |",
        "|---|---|---|---|---|",
        *(
            f"| {kind} | {row['kernels']:,.0f} | {row['gigabytes']:.2f} "
            f"| {row['gigaflops']:,.0f} | {row['expected_ms']:.2f} |"
            for kind, row in train["kinds"].items()
        ),
        "",
        "| program | expected ms | kernels | callbacks | memory, GB | compiled in |",
        "|---|---|---|---|---|---|",
        *(
            _program_row(name, result[name])
            for name in ("train", "evaluate", "initialise")
        ),
        "",
        f"The peak of {result['peak_gigabytes']:.2f} GB "
        f"{'fits' if result['fits'] else 'DOES NOT FIT'} into the 75% of the GPU's "
        "memory that JAX takes. Compilation was timed on this machine, for a dispatch "
        f"of {train['num_steps']} steps. A run has {result['dispatches']:,} "
        "dispatches.",
        "",
        "Products of factors with more than 16 bits, for each train step: "
        + (_wide(train["wide_products"]) or "none")
        + ".",
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, values: dict[str, float]) -> str:
    numbers = (f"{values[key]:,.3g}" if values[key] < 100 else f"{values[key]:,.0f}"
               for key in budget.ASSUMPTIONS)  # fmt: skip
    return f"| {name} | {' | '.join(numbers)} |"


def _program_row(name: str, program: dict[str, Any]) -> str:
    every = program["kinds"]["all"]
    return (
        f"| {name} | {every['expected_ms']:.2f} | {every['kernels']:,.0f} "
        f"| {program['host_callbacks']} | {program['peak_gigabytes']:.2f} "
        f"| {program['compile_seconds']:.0f} s |"
    )


def _wide(products: dict[str, dict[str, float]]) -> str:
    largest = sorted(products.items(), key=lambda item: -item[1]["gigaflops"])
    return "; ".join(
        f"{row['kernels']:.0f} of `{name}` ({row['gigaflops']:.3g} GFLOP)"
        for name, row in largest
    )
