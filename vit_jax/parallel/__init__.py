"""Devices and processes of a run, and how a process starts and ends.

mesh.py               the devices, and how arrays lie on them
distributed.py        several processes start and end together; startup_barrier.py: all
                      of them have started
processes.py          what process 0 decides for all
signals.py            SIGTERM and Ctrl-C as a question between two steps
commands.py           how every command begins and ends
host_memory.py        memory that the C library keeps; compiled_programs.py: programs
                      that JAX keeps

Imports `vit_jax.errors` only.
"""
