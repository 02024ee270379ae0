"""Which of a file's tensors become which parameters, and which do not fit."""

import re

import numpy as np

from vit_jax.errors import UserError, shorten
from vit_jax.pretrained.rename import Renamed, unified_shape
from vit_jax.pretrained.report import Report


def match_parameters(
    renamed: Renamed,
    report: Report,
    shapes: dict[str, tuple[int, ...]],
    allow: tuple[str, ...],
) -> dict[str, np.ndarray]:
    """The parameters that the file has, each in the model's shape.

    Args:
      renamed, report: what the file has, fitted to the model, and where it is noted.
      shapes: of the model's parameters.
      allow: regular expressions of names, ours or the file's, that need not fit.

    Raises:
      UserError: names are missing, extra or misshapen without being allowed, or a
        tensor has numbers that are not finite.
    """

    def allowed(*names: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in allow for name in names)

    params, missing, extra, misshapen = {}, [], [], []
    for name, array in renamed.tensors.items():
        source = renamed.sources.get(name, name)
        if name not in shapes:
            if allowed(name, source):
                report.dropped[source] = "allowed to be left out"
            else:
                extra.append(source)
        elif array.shape == unified_shape(name, shapes[name]):
            params[name] = array.reshape(shapes[name])
            if name not in report.new:
                report.mapped[name] = source
        elif allowed(name, source):
            report.new[name] = f"{source} has another shape, {array.shape}"
            report.resized.pop(name, None)
        else:
            ours = unified_shape(name, shapes[name])
            misshapen.append(f"{source} {array.shape} for {ours}")
    for source in renamed.unknown:
        if allowed(source):
            report.dropped[source] = "allowed to be left out"
        else:
            extra.append(source)
    for name in shapes:
        if name not in renamed.tensors and name not in report.new:
            if allowed(name):
                report.new[name] = "the file lacks it"
            else:
                missing.append(name)
    if missing or extra or misshapen:
        raise _misfit(report, missing, extra, misshapen)
    for name, array in params.items():
        if not np.isfinite(array).all():
            raise UserError(
                f"The weights file {report.path} has numbers that are not finite in "
                f"{renamed.sources.get(name, name)}; take another file."
            )
    return params


def _misfit(
    report: Report, missing: list[str], extra: list[str], misshapen: list[str]
) -> UserError:
    lists = {
        "lacks": missing,
        "has, without a place in the model,": extra,
        "has in another shape": misshapen,
    }
    found = "; it ".join(f"{verb} {shorten(x, 4)}" for verb, x in lists.items() if x)
    hint = ", ".join(f"{name}={file}" for name, (file, _) in report.differences.items())
    hint = (
        f"set config.model to the weights' {hint}" if hint else "choose another model"
    )
    return UserError(
        f"The weights file {report.path} does not fit the model: it {found}; {hint}, "
        "or name what may differ by regular expressions in config.pretrained.allow."
    )
