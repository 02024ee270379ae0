"""The evaluations of a run so far, and the decisions that follow from them."""

import dataclasses
import math
from typing import Any


@dataclasses.dataclass
class History:
    """What a run has done so far; saved as JSON with every checkpoint.

    Attributes:
      evaluations: {"step", "accuracy", "loss"} of each evaluation on "val", in order;
        the accuracy is None where no labels are learned.
      stage_starts: number of steps done before each stage that has begun.
      train_seconds, cpu_seconds: see `TrainClock`.
      compile_seconds: wall-clock time of compiling the train steps, over all starts.
      linear_probe: how its head was found, see `linear_probe.fit_logistic`; None: there
        is no probe, or it is not solved yet.
    """

    evaluations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    stage_starts: list[int] = dataclasses.field(default_factory=lambda: [0])
    train_seconds: float = 0.0
    cpu_seconds: float | None = 0.0
    compile_seconds: float = 0.0
    linear_probe: dict[str, Any] | None = None

    def add_evaluation(self, step: int, scores: dict[str, float | None]) -> None:
        """Adds {"accuracy", "loss"} of an evaluation."""
        self.evaluations.append({"step": step, **scores})

    @property
    def last_evaluated_step(self) -> int:
        """Optimizer steps before the newest evaluation; -1 where there is none."""
        return int(self.evaluations[-1]["step"]) if self.evaluations else -1

    def _of_this_stage(self, name: str) -> list[float]:
        start = self.stage_starts[-1]
        values = [e[name] for e in self.evaluations if e["step"] > start]
        # Without labels there are no accuracies.
        return [value for value in values if value is not None]

    def lr_scale(self, config_schedule: Any) -> float:
        """The factor of the learning rate after the evaluations of this stage.

        For a plateau: after `plateau_patience` consecutive evaluations without a loss
        below (1 - `plateau_min_delta`) times the lowest so far, it is multiplied by
        `plateau_factor` and the count is reset. It is computed from all evaluations
        each time, so that a resumed run has the factor of an uninterrupted one.
        `optax.contrib.reduce_on_plateau` cannot be used: it takes a loss in every step,
        and most steps are not evaluated.
        """
        scale, lowest, num_bad = 1.0, math.inf, 0
        if config_schedule.name != "plateau":
            return scale
        ratio = 1 - config_schedule.plateau_min_delta
        for loss in self._of_this_stage("loss"):
            if loss < lowest * ratio:
                lowest, num_bad = loss, 0
                continue
            num_bad += 1
            if num_bad == config_schedule.plateau_patience:
                scale, num_bad = scale * config_schedule.plateau_factor, 0
        return scale

    def should_stop(self, config_early_stopping: Any) -> bool:
        """Whether the evaluations of this stage end it early.

        They do when the best accuracy reaches `target` (None: never), or when at least
        `patience` evaluations have followed the best one (0: never).
        """
        patience = config_early_stopping.patience
        accuracies = self._of_this_stage("accuracy")
        is_stale = patience and max(accuracies, default=-1.0) in accuracies[:-patience]
        return bool(is_stale) or self.has_reached(config_early_stopping.target)

    def has_reached(self, target: float | None) -> bool:
        """Whether an accuracy of this stage is at least `target`; None: it is not."""
        best = max(self._of_this_stage("accuracy"), default=-1.0)
        return target is not None and best >= target
