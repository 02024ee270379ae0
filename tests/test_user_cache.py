"""Where downloads, decoded images and compiled programs are kept."""

import pathlib

from vit_jax.user_cache import cache_folder


def test_cache_folder(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == pathlib.Path("/somewhere/vit_jax")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == pathlib.Path("/home/me/.cache/vit_jax")
