"""A first signal is noted, and said so."""

import os
import signal

from vit_jax.parallel.signals import StopSignals


def test_a_signal_is_answered_at_once(capfd):
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM
    assert "stopping after this step" in capfd.readouterr().err
