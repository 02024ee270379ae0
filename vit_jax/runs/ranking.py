"""The order of evaluations, by which the best checkpoint is chosen."""

import math
import pathlib
import reprlib
from typing import Any

from vit_jax.errors import UserError
from vit_jax.runs.manifest import verify

NEVER_BEST = (-math.inf, -math.inf)


def rank(accuracy: float | None, loss: float | None) -> tuple[float, float]:
    """Sort key: accuracy, then negative loss.

    It is `NEVER_BEST` if either is missing, NaN or infinite. Of equal evaluations the
    earliest is the best, which is what `max` returns.
    """
    if accuracy is None or loss is None:
        return NEVER_BEST
    if not (math.isfinite(accuracy) and math.isfinite(loss)):
        return NEVER_BEST
    return accuracy, -loss


def inspect_state(
    folder: pathlib.Path, handler: Any
) -> tuple[tuple[float, float], str | None]:
    """(rank, damage in words or None) of a saved state; `handler` reads metadata.

    The state is in the folder state/ of a folder that is named by its step.
    """
    try:
        verify(folder)
        saved = handler.metadata(folder).custom_metadata
        found = rank(saved["accuracy"], saved["loss"])
        if str(saved.get("step", folder.parent.name)) != folder.parent.name:
            return NEVER_BEST, f"{folder.parent} was renamed, it is of another step"
        return found, None
    except UserError as error:
        return NEVER_BEST, str(error)
    except Exception as error:
        # Orbax reads what somebody else may have written, and fails in many ways.
        return NEVER_BEST, f"it is not of a training run: {reprlib.repr(error)}"
