"""Several trainings of one config in one program, along a leading axis of members."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from ml_collections import ConfigDict

from vit_jax import data
from vit_jax.config import check_config
from vit_jax.data import batches
from vit_jax.errors import UserError
from vit_jax.models import backend
from vit_jax.training import scoring, steps
from vit_jax.training.experiment import make_experiment
from vit_jax.training.train_state import make_root_key


@dataclasses.dataclass(frozen=True)
class Member:
    """One training of the sweep."""

    learning_rate: float
    seed: int


class Sweep:
    """The stacked states of the members, trained and scored all at once.

    Attributes:
      members: rates and seeds, in the order of the states' first axis.
      states: a `TrainState` whose arrays have an axis of members in front.
    """

    def __init__(
        self,
        config: ConfigDict,
        splits: dict[str, data.Dataset],
        members: Sequence[Member],
    ):
        self.members, self._splits = list(members), splits
        seeds = [member.seed for member in members]
        config = config.copy_and_resolve_references()
        config["seed"], config["num_devices"] = seeds[0], 1
        self.experiment = make_experiment(config, splits)
        # Each seed's initial state is its own run's, made by the same program.
        init_state = self.experiment.init_state.func
        initial = {
            seed: jax.device_get(init_state(make_root_key(seed)))
            for seed in dict.fromkeys(seeds)
        }
        self.states = jax.tree.map(
            lambda *leaves: jnp.stack(leaves), *(initial[seed] for seed in seeds)
        )
        self._root_keys = jnp.stack([make_root_key(seed) for seed in seeds])
        rates = np.array([member.learning_rate for member in members])
        self._lr_scales = jnp.float32(rates / config.optim.learning_rate)
        # Members of one seed share their batches.
        self._orders = seeds[:1] if len(set(seeds)) == 1 else seeds
        train = splits["train"]
        self._train = jax.device_put((np.asarray(train.images), train.labels))
        self._train_programs, self._eval_program = {}, None

    def _one_step(self, states, images, labels, indices, epochs):
        """One step of all members; `indices` [orders, batch], `epochs` [batch]."""

        def member_step(state, root_key, lr_scale, batch):
            return self.experiment.train_step(state, batch, root_key, lr_scale)

        take = functools.partial(steps.take_batch, images, labels, epochs=epochs)
        if len(self._orders) == 1:
            batch, axis = take(indices=indices[0]), None
        else:
            batch, axis = jax.vmap(lambda i: take(indices=i))(indices), 0
        step = jax.vmap(member_step, in_axes=(0, 0, 0, axis))
        return step(states, self._root_keys, self._lr_scales, batch)

    def _many_steps(self, states, images, labels, indices, epochs):
        """`indices` [steps, orders, batch] and `epochs` [steps, batch]."""

        def body(states, step):
            return self._one_step(states, images, labels, *step)

        if len(indices) == 1:  # XLA's convolutions in a loop are slow on CPU.
            states, metrics = body(states, (indices[0], epochs[0]))
            return states, jax.tree.map(lambda x: x[None], metrics)
        return jax.lax.scan(body, states, (indices, epochs))

    def compile(self, lengths: Iterable[int]) -> None:
        """Compiles what `train` needs for these numbers of steps, and `score`."""
        train_steps = backend.jit(self._many_steps, donate_argnums=0)
        for length in lengths:
            inputs = self.states, *self._train, *self._indices(0, length)
            self._train_programs[length] = train_steps.lower(*inputs).compile()
        # JAX cannot call a function with its own compiler options inside another one.
        eval_step = self.experiment.eval_step.__wrapped__
        evaluate = backend.jit(jax.vmap(eval_step, in_axes=(0, None)))
        images = self._splits["val"].images[: self._eval_size]
        self._eval_program = evaluate.lower(self.states.variables, images).compile()

    def train(self, first: int, last: int) -> dict[str, Float[np.ndarray, "steps m"]]:
        """Trains from step `first` to step `last` in one dispatch; returns metrics."""
        program = self._train_programs[last - first]
        inputs = *self._train, *self._indices(first, last)
        self.states, metrics = program(self.states, *inputs)
        return jax.device_get(metrics)

    def _indices(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """[steps, orders, batch] of the steps' images, and [steps, batch] of epochs."""
        num_examples = len(self._splits["train"])
        size = self.experiment.config.batch_size
        numbers = range(first, last)
        indices = [
            [
                batches.train_indices(num_examples, size, seed, n)
                for seed in self._orders
            ]
            for n in numbers
        ]
        epochs = [batches.train_epochs(num_examples, size, n) for n in numbers]
        return np.array(indices), np.array(epochs)

    @property
    def _eval_size(self) -> int:
        return min(self.experiment.config.eval_batch_size, len(self._splits["val"]))

    def score(self) -> list[dict[str, float]]:
        """Hold-out accuracy and loss of every member."""
        val = self._splits["val"]
        logits = []
        for indices, mask in batches.eval_batches(len(val), self._eval_size):
            scores = self._eval_program(self.states.variables, val.images[indices])
            logits.append(np.asarray(scores)[:, mask])
        return [
            scoring.brief_scores(of_member, val.labels)
            for of_member in np.concatenate(logits, axis=1)
        ]


def check_sweep(config: ConfigDict) -> None:
    """Refuses settings with which members cannot train side by side.

    Raises:
      UserError: names the setting.
    """
    check_config(config)
    if config.objective != "classification":
        raise UserError(
            f"config.objective is {config.objective}, which has no accuracy, but a "
            "sweep ranks its members by that; train single runs of vit_jax.main."
        )
    if config.data.select_on != "val":
        raise UserError(
            f"config.data.select_on is {config.data.select_on}, but a sweep chooses on "
            "images held out; set it to val."
        )
    alone = {"stages": config.stages, "linear_probe": config.linear_probe,
             "pretrained.path": config.pretrained.path}  # fmt: skip
    for key, value in alone.items():
        if value:
            raise UserError(
                f"config.{key} is set, but a sweep trains its members in one stage "
                "from initial values; leave it out, or train single runs."
            )
    if config.schedule.name == "plateau":
        raise UserError(
            "config.schedule.name is plateau, whose rate follows one run's losses; "
            "give a sweep another schedule."
        )
    if config.early_stopping.patience or config.early_stopping.target is not None:
        raise UserError(
            "config.early_stopping is set, but the members of a sweep end together; "
            "set its patience to 0 and its target to None."
        )
    if config.distill.teacher:
        raise UserError(
            f"config.distill.teacher is {config.distill.teacher}, but a sweep trains "
            "without a teacher; leave it out."
        )
    if not config.optim.learning_rate:
        raise UserError(
            "config.optim.learning_rate is 0, but the members' rates are multiples of "
            "it; give a rate above 0."
        )
