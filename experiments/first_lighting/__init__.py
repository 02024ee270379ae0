"""The workings of `experiments.first_light`.

parts.py         the parts, in order of what they tell
session.py       one call of the command, what a part is, and its processes
first_steps.py   a config's first steps: device, dtypes, losses, seconds
resume.py        whether a resumed run has the bits of one that ran through
training.py      accuracy over seconds of training runs

requirements.txt lists what a machine needs that has only JAX, Flax, Optax and Orbax.
"""
