"""Training: from a config to results.

train.py            a whole run; loop.py: the training loop
experiment.py       everything that a config describes; resolve.py: what it leaves
                    open; plan.py: its durations, in steps; memory.py: whether it
                    fits; summary.py: described in words
start.py            the state in which a run or a stage starts; linear_probe.py: a head
                    that is solved; results.py: the content of results.json
steps.py            train_step, a pure function; train_state.py: the state, and keys
objectives.py       what a step minimises; trainable.py: which parameters it changes
teacher.py          the model that another one learns from
optim.py            schedules and optimizers; muon.py: one of them
dispatch.py         several steps as one compiled program
time_budget.py      the number of steps that fit into a time
input_pipeline.py   batches, copied to the devices in advance
scoring.py          scores of a split, each image exactly once; masked.py: those of
                    masked autoencoding
history.py          the evaluations so far; plateau and stopping rules
logs.py             metrics, from the device to a file; progress.py: to the screen;
                    curves.py: to a figure; profile.py: a profile of some dispatches

docs/one_batch.md follows one batch through these files. Imports `runs`, `pretrained`
and the rooms below them, but not `interpret`.
"""
