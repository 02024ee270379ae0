"""Runs in stages: what is frozen, where each stage starts, and exact resume."""

import jax
import numpy as np
import pytest

from tests.training.made import (
    RESNET,
    differing,
    interrupted,
    newest,
    without_times,
)
from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training import objectives, steps, trainable
from vit_jax.training.experiment import make_experiment
from vit_jax.training.train import train_and_evaluate

pytestmark = pytest.mark.usefixtures("no_curves")

HEAD_THEN_ALL = (
    {"num_steps": 3, "optim.trainable": "head", "schedule.name": "constant",
     "schedule.warmup": "0 steps"},
    {"num_steps": 3, "optim.layer_decay": 0.8, "augment.mixup_alpha": 0.5},
)  # fmt: skip


def initial(config):
    built = make_experiment(config, data.load(config.data))
    return jax.device_get(built.init_state())


@pytest.fixture(scope="module")
def staged(tiny_config, tmp_path_factory):
    """(config, folder, results) of a finished run of two stages."""
    config = tiny_config(
        stages=HEAD_THEN_ALL, optim__ema_decay=0.9, model__dropout=0.1,
        data__select_on="nothing", checkpoint_every="1 steps",
    )  # fmt: skip
    workdir = tmp_path_factory.mktemp("staged")
    return config, workdir, train_and_evaluate(config, workdir)


@pytest.mark.slow
def test_the_second_stage_goes_on_from_the_first(staged):
    config, workdir, results = staged
    assert results["num_steps"] == 6 and results["best_step"] == 6
    # Images are held out, and select nothing.
    assert results["val"]["num_examples"] == 100
    head = 16 * 10 + 10
    assert results["stages"] == [
        {"first_step": 0, "last_step": 3, "num_trainable_params": head},
        {"first_step": 3, "last_step": 6,
         "num_trainable_params": results["num_params"]},
    ]  # fmt: skip
    before, after = initial(config), load_run(workdir, "latest").variables
    assert "block0/mlp/out/kernel" in differing(before.params, after["params"])
    rates = {r["step"]: r["learning_rate"] for r in RunFolder(workdir).read_metrics()
             if r["split"] == "train"}  # fmt: skip
    # The second schedule begins anew: a warm-up of two steps, at whose first the rate
    # is zero.
    assert [rates[step] for step in (2, 3)] == pytest.approx([1e-3, 1e-3])
    assert [rates[step] for step in (4, 5, 6)] == pytest.approx([0, 5e-4, 1e-3])


@pytest.mark.slow
def test_stages_that_have_begun_cannot_be_taken_away(staged):
    config, workdir, _ = staged
    for stages in (HEAD_THEN_ALL[:1], ()):
        fewer = config.copy_and_resolve_references()
        fewer.stages = stages
        fewer.num_steps = None if stages else 3
        with pytest.raises(UserError, match=r"in its stage 2, but .* has 1 now"):
            train_and_evaluate(fewer, workdir, resume_with_changes=True)
    other = config.copy_and_resolve_references()
    other.stages = ({**HEAD_THEN_ALL[0], "optim.b2": 0.9}, HEAD_THEN_ALL[1])
    with pytest.raises(UserError, match=r"has trained the first 1 of config\.stages"):
        train_and_evaluate(other, workdir, resume_with_changes=True)


@pytest.mark.slow
def test_a_finished_run_says_which_stage_to_lengthen(staged):
    config, workdir, _ = staged
    other = config.copy_and_resolve_references()
    other.optim.b2 = 0.9
    with pytest.raises(UserError, match=r"larger config\.stages\.1\.num_steps"):
        train_and_evaluate(other, workdir, resume_with_changes=True)


@pytest.mark.slow
def test_resume_at_every_step_of_every_stage_is_exact(staged, tmp_path):
    config, workdir, whole = staged
    for step in range(1, 6):
        with interrupted() as interruption:
            train_and_evaluate(config, tmp_path)
        assert interruption.value.step == step
    pieces = train_and_evaluate(config, tmp_path)
    assert without_times(whole) == without_times(pieces)
    states = [newest(folder, 1, 3) for folder in (workdir, tmp_path)]
    assert int(states[0].step) == 6 and differing(*states) == set()


@pytest.mark.slow
def test_stages_of_a_student_resume_on_eight_devices_that_the_host_feeds(
    tiny_config, tiny_run, tmp_path
):
    """In both stages, with Muon's state; dispatches of 2 steps and of 1."""
    config = tiny_config(
        distill__teacher=str(tiny_run[0]), model__distillation_token=True,
        optim__name="muon", optim__ema_decay=0.9, model__dropout=0.1, num_devices=8,
        data__placement="host", steps_per_dispatch=2, checkpoint_every="3 steps",
        # Muon needs matrices in blocks, which a head has not.
        stages=(
            {"num_steps": 3, "optim.trainable": "last 1 blocks"},
            {"num_steps": 3, "augment.mixup_alpha": 0.5},
        ),
    )  # fmt: skip
    train_and_evaluate(config, tmp_path / "whole")
    with interrupted() as in_first:
        train_and_evaluate(config, tmp_path / "pieces")
    with interrupted() as at_its_end:
        train_and_evaluate(config, tmp_path / "pieces")
    with interrupted() as in_second:
        train_and_evaluate(config, tmp_path / "pieces")
    stops = [each.value.step for each in (in_first, at_its_end, in_second)]
    assert stops == [2, 3, 5]
    train_and_evaluate(config, tmp_path / "pieces")
    states = [newest(tmp_path / name, 1, 3) for name in ("whole", "pieces")]
    assert int(states[0].step) == 6 and differing(*states) == set()


@pytest.mark.slow
def test_frozen_norms_keep_their_statistics(tiny_config, tmp_path):
    stages = [{"num_steps": 3, "optim.trainable": "stage2|head"}]
    config = tiny_config(stages=stages, optim__ema_decay=0.9, **RESNET)
    train_and_evaluate(config, tmp_path)
    before, after = initial(config), load_run(tmp_path, "latest").variables
    for old, new in (
        (before.params, after["params"]),
        (before.batch_stats, after["batch_stats"]),
    ):
        moved = {name.split("/")[0].split("_")[0] for name in differing(old, new)}
        assert moved <= {"stage2", "head"} and "stage2" in moved


@pytest.mark.slow
def test_a_stage_may_end_early_and_the_next_begins(tiny_config, tmp_path, capfd):
    stages = [
        {"num_steps": 30, "optim.trainable": "head", "optim.learning_rate": 0.0,
         "early_stopping.patience": 1},
        {"num_steps": 30, "early_stopping.patience": 1, "optim.learning_rate": 0.0,
         "early_stopping.after": "5 steps"},
    ]  # fmt: skip
    config = tiny_config(stages=stages, eval_every="2 steps")
    results = train_and_evaluate(config, tmp_path)
    # Nothing is learned, so the second evaluation of a stage is no better; in the
    # second stage the one after 6 steps is the first that may end it.
    assert [s["last_step"] for s in results["stages"]] == [4, 10]
    assert "stopped early at step 4 of 30" in "".join(capfd.readouterr())
    assert train_and_evaluate(config, tmp_path) == results


def test_a_later_stage_is_checked_before_the_first_is_trained(tiny_config, tmp_path):
    stages = [{"num_steps": 3}, {"num_steps": 3, "optim.trainable": "haed"}]
    refused = r"^config\.stages\.1\.optim\.trainable is 'haed', which no parameter"
    with pytest.raises(UserError, match=refused):
        train_and_evaluate(tiny_config(stages=stages), tmp_path)
    assert RunFolder(tmp_path).read_metrics() == []


def test_layers_of_a_resnet_have_no_order(tiny_config, splits):
    config = tiny_config(optim__layer_decay=0.5, **RESNET)
    with pytest.raises(UserError, match="resnet10 has no blocks"):
        make_experiment(config, splits)


@pytest.mark.slow
def test_frozen_parts_cost_no_backward_pass(tiny_config, splits):
    """XLA counts the floating-point operations of the compiled gradients."""
    config = tiny_config(model__depth=4, model__width=32)
    built = make_experiment(config, splits)
    state = built.state_shapes
    images = jax.ShapeDtypeStruct((16, 8, 8, 1), np.float32)
    targets = jax.ShapeDtypeStruct((16, 10), np.float32)

    def flops(part):
        def gradients(state, images, targets, key):
            return steps.mean_gradients(
                state,
                images,
                targets,
                key,
                None,
                objective=lambda *inputs: objectives.classification(
                    *inputs, model=built.model
                ),
                trained=trainable.trainable_names(state.params, part),
                num_microbatches=1,
                loss_scale=1.0,
            )

        lowered = jax.jit(gradients).lower(state, images, targets, built.root_key)
        return lowered.compile().cost_analysis()["flops"]

    def apply(state, images):
        return built.model.apply({"params": state.params}, images, train=True)

    forward = jax.jit(apply).lower(state, images).compile().cost_analysis()["flops"]
    everything, half, head = map(flops, ("all", "last 2 blocks", "head"))
    assert forward < head < 1.05 * forward
    # A backward pass costs two forward passes.
    assert head < half < 0.75 * everything


def test_the_state_of_the_optimizer_covers_what_is_trained(tiny_config, splits):
    config, counts = tiny_config(stages=HEAD_THEN_ALL), []
    for stage in range(2):
        state = make_experiment(config, splits, stage).state_shapes
        counts.append(sum(x.size for x in jax.tree.leaves(state.opt_state)))
    assert counts[0] < 2 * 170 + 10 < counts[1]
