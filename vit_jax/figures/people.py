"""What a model says of images, beside what people said."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.figure import Figure

from vit_jax.figures import style


def disagreements(
    images: UInt8[np.ndarray, "n h w c"],
    labels: Int[np.ndarray, "n"],
    probabilities: Float[np.ndarray, "n k"],
    people: Float[np.ndarray, "n k"],
    class_names: Sequence[str],
    *,
    title: str = "Where model and people differ most",
    columns: int = 4,
) -> Figure:
    """Each image with the label, the model's first choice and people's first choice.

    Args:
      images: to show, such as those of `metrics.human.largest_differences`.
      labels: the official classes.
      probabilities: of the model.
      people: the share of people who chose each class.
      class_names: in the order of the columns.
      title: of the figure.
      columns: images in a row.
    """
    columns = max(1, min(columns, len(images)))
    rows = -(-len(images) // columns)
    figure = style.new_figure(0.2 + 2.05 * columns, 0.5 + 2.35 * rows, title)
    for index, image in enumerate(images):
        lines = [f"label: {class_names[labels[index]]}"]
        for who, shares in (("model", probabilities), ("people", people)):
            first = int(shares[index].argmax())
            lines.append(
                f"{who}: {class_names[first]} ({100 * shares[index, first]:.0f}%)"
            )
        axes = figure.add_subplot(rows, columns, index + 1)
        style.show_image(axes, image, "\n".join(lines))
    return figure
