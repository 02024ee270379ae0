"""The workings of `experiments.sweep`: members that train side by side."""
