"""Which of a file's tensors become which parameters, and a report on it."""

import dataclasses
import re
from typing import Any

import numpy as np

from vit_jax.errors import UserError, shorten
from vit_jax.pretrained.rename import Renamed, unified_shape


@dataclasses.dataclass
class Report:
    """What was found, mapped, resized, dropped and newly initialised.

    Attributes:
      path, format, sha256: of the file.
      layout: whose names it has: "timm", "google", "hugging_face" or "vit_jax".
      settings: of `config.model`, as far as the file and its layout imply them.
      differences: where the model's setting is another: (the file's, the model's).
        The weights fit all the same, but the logits are not those of the origin.
      assumed: settings that change what the weights compute and that the file does not
        tell: the model's.
      pretraining_image: height and width in pixels, where positions tell them.
      mapped: the file's name of every parameter that was taken, by ours.
      resized: how a parameter was fitted, by our name.
      dropped: why a tensor was not taken, by the file's name.
      new: why a parameter was newly initialised, by our name.
    """

    path: str
    format: str
    sha256: str
    layout: str
    settings: dict[str, Any]
    differences: dict[str, tuple[Any, Any]]
    assumed: dict[str, Any]
    pretraining_image: tuple[int, int] | None = None
    mapped: dict[str, str] = dataclasses.field(default_factory=dict)
    resized: dict[str, str] = dataclasses.field(default_factory=dict)
    dropped: dict[str, str] = dataclasses.field(default_factory=dict)
    new: dict[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        """A table of two columns, for a terminal."""
        rows = [
            ("weights", self.path),
            ("SHA-256", self.sha256),
            ("format", f"{self.format}, names of {self.layout}"),
            ("mapped", f"{len(self.mapped)} parameters"),
            *(("resized", f"{name}: {how}") for name, how in self.resized.items()),
            *(("dropped", row) for row in _grouped(self.dropped)),
            *(("new", row) for row in _grouped(self.new)),
        ]
        if self.pretraining_image:
            height, width = self.pretraining_image
            rows.append(("pretrained on", f"{height} x {width} pixels"))
        rows += [
            ("assumed", f"{name}={value}, which the file does not tell")
            for name, value in self.assumed.items()
        ]
        for name, (file, model) in self.differences.items():
            text = f"config.model.{name} is {model}, the weights' is {file}: "
            text += f"--config.model.{name}={file} takes theirs"
            rows.append(("differs", text))
        return "\n".join(f"{label:<14}{text}" for label, text in rows)


def _grouped(reasons: dict[str, str]) -> list[str]:
    """One row for each reason, with the names that share it."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"{shorten(group, 4)}: {reason}" for reason, group in names.items()]


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
    if hint:
        hint = f"set config.model to the weights' {hint}"
    elif report.format == "vit_jax":
        hint = "set config.model to what the run's config.json has"
    else:
        hint = "choose another model"
    return UserError(
        f"The weights file {report.path} does not fit the model: it {found}; {hint}, "
        "or name what may differ by regular expressions in config.pretrained.allow."
    )
