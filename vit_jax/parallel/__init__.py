"""Devices and processes of a run, and how a process starts and ends.

mesh.py               the devices, and the sharding of arrays
distributed.py        several processes start and end together; startup_barrier.py waits
                      until all of them have started
processes.py          decisions of process 0 for all, and when all stop or save
signals.py            SIGTERM and Ctrl-C: at once, or as a flag between two steps
commands.py           start and end of every command; streams.py: closed and full ones
host_memory.py        how the C library allocates memory; compiled_programs.py: JAX's
                      compilation cache

Imports `vit_jax.errors` and `vit_jax.files` only.
"""
