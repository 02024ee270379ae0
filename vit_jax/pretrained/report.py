"""What became of the tensors of a file of weights."""

import dataclasses
from typing import Any

from vit_jax.errors import shorten


@dataclasses.dataclass
class Report:
    """What was found, mapped, resized, dropped and newly initialised.

    Attributes:
      path, format, sha256: of the file.
      layout: whose names it has: "timm", "google", "hugging_face" or "vit_jax".
      settings: of `config.model`, as far as the file and its layout imply them.
      differences: where the model's setting is another: (the file's, the model's).
        The weights fit all the same, but the logits are not those of the origin.
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
        for name, (file, model) in self.differences.items():
            rows.append(
                (
                    "differs",
                    f"config.model.{name} is {model}, the weights' is {file}: "
                    f"--config.model.{name}={file} takes theirs",
                )
            )
        return "\n".join(f"{label:<14}{text}" for label, text in rows)


def _grouped(reasons: dict[str, str]) -> list[str]:
    """One row for each reason, with the names that share it."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"{shorten(group, 4)}: {reason}" for reason, group in names.items()]
