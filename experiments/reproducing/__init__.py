"""The workings of `experiments.reproduce`: rows, runs and tables of the studies."""
