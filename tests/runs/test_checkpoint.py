"""Checkpoints survive kills, damage and full disks, which all happen for real here."""

import contextlib
import json
import math
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.parallel.running import require_mount
from tests.rows import slow
from vit_jax.errors import UserError
from vit_jax.runs.checkpoint import Checkpoints
from vit_jax.runs.manifest import write_manifest
from vit_jax.runs.ranking import inspect_state


def make_state(step: int, size: int = 16, features: int = 3) -> dict[str, Any]:
    """Like the training state: float32, bfloat16, int32, empty and absent parts."""
    rng = np.random.default_rng(step)
    params = {
        "block_0": {"kernel": rng.standard_normal((size, 8)).astype(np.float32)},
        "head": {
            "kernel": rng.standard_normal((8, features)).astype(jnp.bfloat16),
            "bias": np.array([0.0, -0.0, math.nan], np.float32),
        },
    }
    params = jax.tree.map(jnp.asarray, params)
    optimizer = optax.adamw(
        1e-3, mask=lambda tree: jax.tree.map(lambda leaf: leaf.ndim > 1, tree)
    )
    return {
        "step": jnp.asarray(step, jnp.int32),
        "params": params,
        "batch_stats": {},
        "ema_params": None,
        "opt_state": optimizer.init(params),
    }


def bits(tree: Any) -> list[tuple[str, bytes]]:
    """Name, dtype, shape and bytes of every leaf, to compare states."""
    return [
        (f"{jax.tree_util.keystr(path)} {leaf.dtype} {leaf.shape}", leaf.tobytes())
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            jax.tree.map(np.asarray, tree)
        )
    ]


def save(checkpoints, step, accuracy=None, loss=None):
    checkpoints.save(
        step, make_state(step), metadata={"at": step}, accuracy=accuracy, loss=loss
    )


@pytest.fixture
def two_checkpoints(tmp_path) -> pathlib.Path:
    """A folder with step 1, the best, and step 3, the newest."""
    folder = tmp_path / "checkpoints"
    with Checkpoints(folder) as checkpoints:
        save(checkpoints, 1, accuracy=0.9, loss=0.5)
        save(checkpoints, 3, accuracy=0.8, loss=0.6)
    return folder


def run_in_namespace(mount: str, function: str, folder: pathlib.Path) -> None:
    """Calls a function of this file in a process that has its own `mount` at folder."""
    folder.mkdir()
    require_mount(folder)
    command = f'mount -t tmpfs -o {mount} none {folder} && exec "$@"'
    run_python(function, folder, prefix=["unshare", "-rm", "sh", "-c", command, "sh"])


def run_python(function: str, *arguments: object, prefix: tuple = ()) -> str:
    tests = pathlib.Path(__file__).parent
    code = f"import test_checkpoint as t, sys; t.{function}(*sys.argv[1:])"
    result = subprocess.run(
        [*prefix, sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{tests}:{tests.parents[1]}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    # Orbax's log would bury the sentence for the user. What Python says of coroutines
    # that a failed save left unfinished comes later, as the process ends.
    errors = re.split("Exception ignored in|Traceback", result.stderr)[0]
    assert "orbax" not in errors
    return result.stdout


# ---- saving and restoring


def test_round_trip_is_bit_identical(tmp_path):
    state = make_state(7)
    metadata = {"history": [{"step": 3, "accuracy": 0.5}], "note": None}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(7, state, metadata=metadata, accuracy=None, loss=None)
    for target in (state, jax.eval_shape(lambda: make_state(0))):
        with Checkpoints(tmp_path, read_only=True) as checkpoints:
            restored, read = checkpoints.restore("latest", target)
        assert jax.tree.structure(restored) == jax.tree.structure(state)
        assert bits(restored) == bits(state)
        assert read == metadata


def test_a_part_of_a_state_is_restored_alone(tmp_path):
    state = {"params": {"w": jnp.arange(4.0)}, "opt_state": jnp.ones(3)}
    part = {"params": state["params"]}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state, metadata={}, accuracy=None, loss=None)
        restored, _ = checkpoints.restore("latest", part, partial=True)
        assert bits(restored) == bits(part)
        with pytest.raises(UserError, match="not expected: opt_state"):
            checkpoints.restore("latest", part)
        with pytest.raises(UserError, match="missing: ema"):
            checkpoints.restore("latest", part | {"ema": jnp.ones(1)}, partial=True)


@pytest.mark.slow
def test_arrays_and_metadata_may_change_right_after_save(tmp_path):
    @jax.jit
    def make(step):
        return {"a": jnp.full((512, 512), step), "b": jnp.arange(2**20) * step}

    @jax.jit(donate_argnums=0)
    def update(state):
        return jax.tree.map(lambda leaf: leaf * 3 + 1, state)

    assert update(state := make(2)) and state["a"].is_deleted()  # donation works here
    with Checkpoints(tmp_path) as checkpoints:
        for step in range(1, 7):
            state = make(step)
            metadata = {"history": [step]}
            checkpoints.save(step, state, metadata=metadata, accuracy=None, loss=None)
            metadata["history"].append("later")
            for _ in range(4):
                state = update(state)
            restored, read = checkpoints.restore(step, state)
            assert bits(restored) == bits(make(step))
            assert read == {"history": [step]}
            # A restored state can be donated as well.
            assert bits(update(restored)) == bits(update(make(step)))


def test_nothing_saved_yet(tmp_path):
    with Checkpoints(tmp_path / "new") as checkpoints:
        assert checkpoints.latest_step is None and checkpoints.best_step is None
        with pytest.raises(UserError, match="has no checkpoint yet; train"):
            checkpoints.restore("latest", make_state(0))
    with Checkpoints(tmp_path / "absent", read_only=True) as checkpoints:
        assert checkpoints.steps() == []
    assert not (tmp_path / "absent").exists()


# ---- which checkpoints are kept

NAN, INF = math.nan, math.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metrics", "best"),
    [
        pytest.param([(0.5, 1.0), (0.6, 1.0), (0.7, 1.0)], 3, id="rising"),
        pytest.param([(0.7, 1.0), (0.6, 0.1), (0.5, 1.0)], 1, id="falling"),
        pytest.param([(0.7, 1.0), (0.7, 0.9), (0.7, 1.1)], 2, id="lower loss"),
        pytest.param([(0.7, 1.0), (0.7, 1.0), (0.7, 1.0)], 1, id="earlier"),
        pytest.param([(0.1, 1.0), (NAN, 0.1), (0.9, NAN)], 1, id="nan"),
        pytest.param([(0.1, 1.0), (INF, 0.1), (0.9, -INF)], 1, id="infinite"),
        pytest.param([(NAN, 1.0), (0.0, 9.0), (None, 0.1)], 2, id="nan first"),
        pytest.param([(0.2, 1.0), (None, None), (0.1, 1.0)], 1, id="missing"),
        pytest.param([(None, None), (NAN, NAN), (0.9, None)], None, id="no best"),
    ],
)
def test_two_newest_and_best_are_kept(tmp_path, metrics, best):
    metrics = [(None, None), *metrics]  # step 1, which is dropped in every case
    best = best and best + 1
    steps = sorted({len(metrics) - 1, len(metrics), best} - {None})
    with Checkpoints(tmp_path) as checkpoints:
        for step, (accuracy, loss) in enumerate(metrics[:-1], 1):
            save(checkpoints, step, accuracy, loss)
    with Checkpoints(tmp_path) as checkpoints:  # the ranking is read from the disk
        save(checkpoints, len(metrics), *metrics[-1])
        checkpoints.wait()
        assert checkpoints.steps() == steps
        assert checkpoints.best_step == best
        assert checkpoints.latest_step == len(metrics)
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(s) for s in steps]
    if best:
        with Checkpoints(tmp_path, read_only=True) as checkpoints:
            restored, read = checkpoints.restore("best", make_state(0))
            assert bits(restored) == bits(make_state(best)) and read == {"at": best}
    else:
        with (
            Checkpoints(tmp_path) as checkpoints,
            pytest.raises(UserError, match="no best checkpoint, since none of"),
        ):
            checkpoints.restore("best", make_state(0))


def test_first_save_of_a_step_wins(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        save(checkpoints, 5, accuracy=0.5, loss=1.0)
        save(checkpoints, 5)
        checkpoints.wait()
        save(checkpoints, 5, accuracy=0.1, loss=9.0)
        with pytest.raises(ValueError, match="step 4 is below checkpoint 5"):
            save(checkpoints, 4)
    with Checkpoints(tmp_path, read_only=True) as checkpoints:
        assert checkpoints.steps() == [5] and checkpoints.best_step == 5
        with pytest.raises(ValueError, match="read-only"):
            save(checkpoints, 6)


# ---- targets that do not fit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"params": jax.tree.map(jnp.float32, s["params"])},
         r"params/head/kernel is bfloat16\[8, 3\] instead of float32\[8, 3\]"),
        (lambda s: s | {"step": jnp.float32(0)},
         r"step is int32\[\] instead of float"),
        (lambda s: make_state(0, features=4),
         r"kernel is .*\[8, 3\] instead of .*8, 4"),
        (lambda s: s | {"ema_params": s["params"]},
         "missing: ema_params/block_0/kernel"),
        (lambda s: s | {"batch_stats": {"mean": s["step"]}},
         "missing: batch_stats/mean;"),
        (lambda s: s | {"opt_state": ()},
         "not expected: opt_state/0/count, .* and 2 more; use"),
    ],
    ids=["float dtype", "int dtype", "shape", "no average", "no statistics", "extra"],
)  # fmt: skip
def test_mismatch_is_refused_by_name(two_checkpoints, change, message):
    target = change(make_state(0))
    with (
        Checkpoints(two_checkpoints, read_only=True) as checkpoints,
        pytest.raises(UserError, match=message),
    ):
        checkpoints.restore("latest", target)


# ---- other devices


def sharded(size: int, spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()[:size]), ("data",)), spec)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved_on", "restored_on"),
    [
        ((8, PartitionSpec("data")), (1, PartitionSpec())),
        ((1, PartitionSpec()), (8, PartitionSpec("data"))),
        ((8, PartitionSpec()), (4, PartitionSpec("data"))),
    ],
)
def test_restores_onto_the_targets_devices(tmp_path, saved_on, restored_on):
    state = {"kernel": jnp.arange(64.0).reshape(16, 4), "bias": jnp.arange(8)}
    state = jax.device_put(state, sharded(*saved_on))
    target = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharded(*restored_on)
        ),
        state,
    )
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state, metadata={}, accuracy=None, loss=None)
        restored, _ = checkpoints.restore("latest", target)
    for leaf in jax.tree.leaves(restored):
        assert leaf.sharding == sharded(*restored_on)
    assert bits(restored) == bits(state)


def test_explicit_copies_work_under_a_transfer_guard(tmp_path):
    state = {"a": jnp.arange(8)}
    with Checkpoints(tmp_path) as checkpoints:
        with jax.transfer_guard("disallow_explicit"):
            checkpoints.save(1, state, metadata={}, accuracy=None, loss=None)
            restored, _ = checkpoints.restore(1, state)
        assert bits(restored) == bits(state)


# ---- damage


def flip_bit(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip_bit, truncate, pathlib.Path.unlink])
def test_damage_to_any_file_is_named_and_survived(two_checkpoints, damage):
    newest = two_checkpoints / "3"
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    assert len(files) > 10
    intact = {path: path.read_bytes() for path in files}
    for path in files:
        damage(path)
        # These files of Orbax are not needed to restore.
        harmless = path.parent == newest or path.name == "commit_success.txt"
        # One bit of a digest in the manifest blames the file of that digest.
        name = "" if path.name == "manifest.json" else path.name
        with (
            contextlib.nullcontext()
            if harmless
            else pytest.warns(UserWarning, match=f"Checkpoint 3 .*{name}")
        ):
            checkpoints = Checkpoints(two_checkpoints, read_only=True)
        with checkpoints:
            step = 3 if harmless else 1
            assert checkpoints.latest_step == step
            restored, read = checkpoints.restore("latest", make_state(0))
            assert bits(restored) == bits(make_state(step)) and read == {"at": step}
            if not harmless:
                with pytest.raises(UserError, match=r"3 is damaged.*may have been"):
                    checkpoints.restore("best", make_state(0))
                with pytest.raises(UserError, match=r"3 is damaged.*number: \[1\]"):
                    checkpoints.restore(3, make_state(0))
                checkpoints.restore(1, make_state(0))
        path.write_bytes(intact[path])


def test_what_a_training_removes_meanwhile_is_not_damaged(
    two_checkpoints, tmp_path, monkeypatch, recwarn
):
    def inspect(folder, handler):
        # Orbax renames an old checkpoint before it deletes it.
        if folder.parent.name == "1" and folder.exists():
            folder.parent.rename(tmp_path / "removed")
        return inspect_state(folder, handler)

    monkeypatch.setattr("vit_jax.runs.checkpoint.inspect_state", inspect)
    with Checkpoints(two_checkpoints, read_only=True) as checkpoints:
        assert checkpoints.steps() == [3] and checkpoints.best_step == 3
        restored, _ = checkpoints.restore("best", make_state(0))
    assert bits(restored) == bits(make_state(3)) and not recwarn.list


def test_all_damaged_is_an_error_and_nothing_is_removed(two_checkpoints):
    shutil.rmtree(two_checkpoints / "1/state")
    flip_bit(two_checkpoints / "3/state/_METADATA")
    before = sorted(two_checkpoints.rglob("*"))
    for read_only in (True, False):
        with (
            pytest.warns(UserWarning, match="damaged"),
            pytest.raises(UserError, match=r"Every checkpoint in .*_METADATA differs"),
        ):
            Checkpoints(two_checkpoints, read_only=read_only)
    assert sorted(two_checkpoints.rglob("*")) == before


def test_what_would_be_best_is_compared_with_what_is_undamaged(tmp_path):
    rows = [
        (0.5, 1.0, True), (NAN, NAN, False), (0.6, NAN, False), (0.6, 1.0, True),
        (0.6, 0.9, True), (0.6, 0.9, False), (None, 0.1, False), (0.5, 0.1, False),
    ]  # fmt: skip
    with Checkpoints(tmp_path) as checkpoints:
        for step, (accuracy, loss, is_best) in enumerate(rows, 1):
            assert checkpoints.would_be_best(accuracy, loss) == is_best
            save(checkpoints, step, accuracy, loss)
    flip_bit(tmp_path / "5/state/_METADATA")
    with pytest.warns(UserWarning, match="Checkpoint 5 is damaged"):
        checkpoints = Checkpoints(tmp_path)
    with checkpoints:
        assert checkpoints.steps() == [7, 8]
        assert checkpoints.would_be_best(0.59, 0.5)
        assert not checkpoints.would_be_best(0.49, 0.5)


@pytest.mark.parametrize("next_step", [slow(2), 3, 4])
def test_training_on_replaces_a_damaged_checkpoint(two_checkpoints, next_step):
    truncate(two_checkpoints / "3/state/manifest.ocdbt")
    with pytest.warns(UserWarning, match=r"Checkpoint 3 is damaged: .*manifest\.ocdbt"):
        checkpoints = Checkpoints(two_checkpoints)
    with checkpoints:
        assert checkpoints.steps() == [1]
        save(checkpoints, next_step, accuracy=0.8, loss=0.6)
    with Checkpoints(two_checkpoints) as checkpoints:  # without a warning
        assert checkpoints.steps() == [1, next_step] and checkpoints.best_step == 1
        restored, _ = checkpoints.restore("latest", make_state(0))
        assert bits(restored) == bits(make_state(next_step))


# ---- a stranger's checkpoint


class Bomb:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(os.environ["BOMB"]),)


@pytest.mark.slow
def test_no_file_of_a_checkpoint_is_ever_unpickled(two_checkpoints, monkeypatch):
    bomb = two_checkpoints.parent / "exploded"
    monkeypatch.setenv("BOMB", str(bomb))
    payload = pickle.dumps(Bomb())
    shutil.rmtree(two_checkpoints / "1")
    folder = two_checkpoints / "3/state"
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        original = path.read_bytes()
        path.write_bytes(payload)
        if path.name != "manifest.json":
            write_manifest(folder)  # anybody can write a manifest
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Checkpoints(two_checkpoints, read_only=True) as checkpoints:
                checkpoints.restore("latest", make_state(0))
        path.write_bytes(original)
    assert not bomb.exists()
    pickle.loads(payload)
    assert bomb.exists()  # Plain pickle would have run it.


@pytest.mark.slow
def test_strangers_are_refused(tmp_path):
    # Written by plain Orbax, without a manifest.
    ocp.StandardCheckpointer().save(tmp_path / "1/state", {"a": jnp.zeros(3)})
    deadline = time.monotonic() + 20
    while not (tmp_path / "1/state").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    refused = pytest.raises(UserError, match="Every checkpoint")
    with pytest.warns(UserWarning, match=r"manifest\.json is missing"), refused:
        Checkpoints(tmp_path)
    # With a manifest, but not of a training run.
    write_manifest(tmp_path / "1/state")
    with pytest.warns(UserWarning, match="not of a training run"), refused:
        Checkpoints(tmp_path)
    # With a manifest that asks to read files elsewhere, or ones that never end.
    path = tmp_path / "1/state/manifest.json"
    own = json.loads(path.read_text())["sha256"]
    for name in ("../../../../../dev/zero", "/dev/zero"):
        path.write_text(json.dumps({"sha256": own | {name: "0" * 64}}))
        with pytest.warns(UserWarning, match="zero is missing"), refused:
            Checkpoints(tmp_path)


# ---- kills


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
    kills = json.loads(run_python("kill_repeatedly", tmp_path))
    assert kills["committed"] > 5
    assert kills["interrupted_saves"] > 0  # Otherwise no kill met a save.


def kill_repeatedly(folder: str) -> None:
    """Forks a process that resumes and saves without end; kills it; 8 times."""
    delays = random.Random(0)
    committed = interrupted = 0
    warnings.simplefilter("ignore", DeprecationWarning)  # fork: no JAX started yet
    for _ in range(8):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                resume_and_save(folder, committed, writer)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writer)
        with open(reader) as lines:
            assert lines.readline() == "0\n"  # it has resumed
            # Some whole saves and a part of one, however long this machine takes.
            whole, start = delays.randint(1, 3), time.monotonic()
            committed = [int(lines.readline()) for _ in range(whole)][-1]
            time.sleep(delays.uniform(0, 2) * (time.monotonic() - start) / whole)
            os.kill(child, signal.SIGKILL)
            committed = max([committed, *map(int, lines)])
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        interrupted += any(pathlib.Path(folder).glob("[0-9]*.orbax-checkpoint-tmp"))
    print(json.dumps({"committed": committed, "interrupted_saves": interrupted}))


def resume_and_save(folder: str, committed: int, writer: int) -> None:
    checkpoints = Checkpoints(folder)
    assert all(path.name.isdigit() for path in pathlib.Path(folder).iterdir())
    step = checkpoints.latest_step or 0
    assert step >= committed, f"step {committed} was committed, resumed at {step}"
    for which in ("latest", "best") if step else ():
        state, read = checkpoints.restore(which, make_state(0, size=4096))
        assert bits(state) == bits(make_state(read["at"], size=4096))
    os.write(writer, b"0\n")
    while True:
        step += 1
        accuracy = step * 7 % 10 / 10
        state = make_state(step, size=4096)
        metadata = {"at": step}
        checkpoints.save(step, state, metadata=metadata, accuracy=accuracy, loss=1.0)
        if step % 2:
            checkpoints.wait()
            os.write(writer, f"{step}\n".encode())


def test_opening_removes_leftovers_unless_read_only(two_checkpoints):
    leftover = two_checkpoints / "4.orbax-checkpoint-tmp/state"
    leftover.mkdir(parents=True)
    before = {path: path.stat() for path in two_checkpoints.rglob("*")}
    with Checkpoints(two_checkpoints, read_only=True) as checkpoints:
        checkpoints.restore("best", make_state(0))
    after = {path: path.stat() for path in two_checkpoints.rglob("*")}
    assert before.keys() == after.keys()
    assert all(before[path].st_mtime_ns == after[path].st_mtime_ns for path in before)
    with Checkpoints(two_checkpoints):
        assert not leftover.parent.exists()


# ---- disks


@pytest.mark.slow
def test_disk_full(tmp_path):
    run_in_namespace("size=8m,nr_inodes=200", "fill_disk", tmp_path / "disk")


def fill_disk(folder: str) -> None:
    def save(step):
        state = {"a": jax.random.bits(jax.random.key(step), (2**20,), "uint8")}
        checkpoints.save(step, state, metadata={}, accuracy=None, loss=None)

    run = pathlib.Path(folder, "run")
    filler = pathlib.Path(folder, "filler")
    checkpoints = Checkpoints(run)
    save(1)
    checkpoints.wait()
    # No bytes: refused before anything is written, with both numbers.
    filler.write_bytes(b"x" * (shutil.disk_usage(folder).free - 2**20))
    free = shutil.disk_usage(folder).free
    needed = 2**20 + 2**20 // 20 + 2**20
    with pytest.raises(
        UserError, match=rf"{needed:,} bytes.* {free:,} bytes.*kept: \[1\]"
    ):
        save(2)
    filler.unlink()
    # No files: only noticed by the thread that writes.
    take_all_files_but(8, filler)
    full = pytest.raises(UserError, match=r"is full.*kept: \[1\]")
    save(2)
    with full:
        checkpoints.wait()
    checkpoints.wait()  # The error is raised once.
    save(2)
    with full:
        save(3)
    assert checkpoints.latest_step == 1
    # Threads of the failed save may still be writing, under names that do not count.
    names = [path.name for path in run.iterdir()]
    assert [name for name in names if not name.endswith("tmp")] == ["1"]
    save(2)
    with full:
        checkpoints.close()
    # With room again, a rerun goes on.
    shutil.rmtree(filler)
    with Checkpoints(run) as checkpoints:
        assert checkpoints.steps() == [1]
        save(2)
        checkpoints.wait()
        take_all_files_but(8, filler)
        save(3)
        with pytest.raises(UserError, match=r"is full.*kept: \[1, 2\]"):
            checkpoints.wait()
        shutil.rmtree(filler)
        save(3)  # and so does this process
    with Checkpoints(run) as checkpoints:
        assert checkpoints.steps() == [2, 3]


def take_all_files_but(num_files: int, folder: pathlib.Path) -> None:
    folder.mkdir()
    with pytest.raises(OSError, match="No space left on device"):
        for number in range(1000):
            (folder / str(number)).touch()
    for number in range(num_files):
        (folder / str(number)).unlink()


@pytest.mark.slow
def test_read_only_disk(tmp_path):
    run_in_namespace("size=8m", "use_read_only_disk", tmp_path / "disk")


def use_read_only_disk(folder: str) -> None:
    with Checkpoints(folder) as checkpoints:
        save(checkpoints, 1, accuracy=0.5, loss=1.0)
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    for target in (folder, f"{folder}/new"):
        with pytest.raises(UserError, match=r"written.*Read-only file system"):
            Checkpoints(target)
    with Checkpoints(folder, read_only=True) as checkpoints:
        restored, _ = checkpoints.restore("best", make_state(0))
    assert bits(restored) == bits(make_state(1))


def test_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Checkpoints("runs/a") as checkpoints:
        monkeypatch.chdir(tmp_path / "elsewhere")
        save(checkpoints, 1)
        checkpoints.restore("latest", make_state(0))
    assert (tmp_path / "runs/a/1/state/manifest.json").is_file()
    assert not list((tmp_path / "elsewhere").iterdir())
