"""Training: from a config to results.

train.py            a run from start to end; loop.py: the only training loop
experiment.py       everything a config describes, built
steps.py            TrainState, train_step, eval_step: pure; rng.py: their keys
optim.py            schedules, optimizers, plateau and stopping rules
dispatch.py         several steps as one compiled program
input_pipeline.py   batches on their way to the devices
scoring.py          every image of a split scored exactly once
history.py          what the loop knows besides its state
logs.py             metrics from the device to file and screen; progress.py: the screen;
                    curves.py: their figure; profile.py: a recording of some dispatches

Imports `runs` and the rooms below it.
"""
