"""The workings of `experiments.first_light`.

parts.py         the parts, in order of what they tell
session.py       one call of the command, and what a part is
workers.py       modules of this repository as processes, stopped in time
first_steps.py   a config's first steps: device, dtypes, losses, seconds
resume.py        whether a resumed run has the bits of one that ran through
training.py      accuracy over seconds of training runs
forecasts.py     the forecasts that are kept in the repository

requirements.txt lists what a machine needs that has only JAX, Flax, Optax and Orbax.
"""
