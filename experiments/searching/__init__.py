"""The workings of `experiments.search`: arms, final runs, the record."""
