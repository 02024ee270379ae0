"""A sweep's states and evaluations on disk, from which an interrupted one goes on."""

import dataclasses
from typing import Any

from experiments.sweeping.members import Sweep
from vit_jax.config import flatten
from vit_jax.errors import UserError
from vit_jax.files import as_json
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.folder import FREE_SETTINGS


@dataclasses.dataclass
class Done:
    """What a sweep has done so far.

    Attributes:
      history: {"step", "accuracy", "loss"} of each member's evaluations, in order.
      step: number of steps done.
      seconds: of training, without compilation and evaluation.
    """

    history: list[list[dict[str, float]]]
    step: int = 0
    seconds: float = 0.0


def save(checkpoints: Checkpoints, sweep: Sweep, done: Done) -> None:
    """Starts to save what `restore` needs; raises as `Checkpoints.save` does."""
    metadata = {"identity": _identity(sweep), "done": dataclasses.asdict(done)}
    checkpoints.save(
        done.step, sweep.states, metadata=metadata, accuracy=None, loss=None
    )


def restore(checkpoints: Checkpoints, sweep: Sweep) -> Done:
    """Sets the newest saved states, where there are any.

    Raises:
      UserError: they are of a sweep with other settings or members.
    """
    if checkpoints.latest_step is None:
        return Done([[] for _ in sweep.members])
    metadata = checkpoints.metadata("latest")
    before, now = metadata["identity"], as_json(_identity(sweep))
    if different := [key for key in now if before.get(key) != now[key]]:
        raise UserError(
            f"--out names a sweep that differs in {', '.join(different)}; give another "
            "--out, or remove its .json and its .states."
        )
    sweep.states, _ = checkpoints.restore("latest", sweep.states)
    return Done(**metadata["done"])


def _identity(sweep: Sweep) -> dict[str, Any]:
    """What must be the same for a sweep to go on."""
    settings = flatten(sweep.experiment.config)
    members = [dataclasses.asdict(member) for member in sweep.members]
    own = {"--learning_rates and --seeds": members, "--shared_order": sweep.is_shared}
    return {k: v for k, v in settings if k not in FREE_SETTINGS} | own
