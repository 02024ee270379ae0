"""Scikit-learn's handwritten digits: real images that need no download."""

import numpy as np

from vit_jax.data.dataset import Dataset


def load() -> dict[str, Dataset]:
    """The only split, "train": 1,797 grey images of 8x8 pixels in ten classes.

    From the UCI "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak 1998).
    The 17 grey levels, 0 to 16, are scaled to 0 to 255.
    """
    # It takes more than a second to import, which only this source should need.
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    names = tuple(str(name) for name in digits.target_names)
    return {"train": Dataset(images, digits.target.astype(np.int32), names)}
