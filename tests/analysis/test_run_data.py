"""The data of a run, loaded again."""

from vit_jax.analysis import run_data
from vit_jax.runs.load import load_run


def test_the_first_images_of_the_split_are_explained(tiny_run):
    captions, images = run_data.read_split(load_run(tiny_run[0]))
    assert len(captions) == len(images) == run_data.MAX_IMAGES == 64
