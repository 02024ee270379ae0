"""The workings of `experiments.transfer`: arms, their helpers, and the table."""
