"""The workings of `experiments.benchmark`: what is timed, and how."""
