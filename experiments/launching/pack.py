"""The archive with which results are moved to another machine."""

import io
import json
import pathlib
import re
import tarfile
from collections.abc import Iterable

from vit_jax.files import hashed, read_json, report_failure, write_file
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.ranking import rank
from vit_jax.runs.records import evaluations
from vit_jax.training.progress import say

_MAX_FILE_BYTES = 1 << 20
_MAX_ARCHIVE_BYTES = 14_000_000


def pack(out: pathlib.Path, name: str, with_state: Iterable[RunFolder]) -> pathlib.Path:
    """Writes OUT/NAME.tar.gz: all small files of OUT, and what going on takes.

    Of each run `with_state` that is the newest and the best checkpoint, as long as the
    archive stays below 14 MB. Checkpoints of other runs stay behind, and so do figures
    except training curves, names of machines, and the folders in commands.
    """
    archive, file = out / f"{name}.tar.gz", io.BytesIO()
    with report_failure(archive), tarfile.open(fileobj=file, mode="w:gz") as tar:
        for path in sorted(out.rglob("*")):
            inside = path.relative_to(out)
            aside = "checkpoints" in inside.parts or inside.name == "lock.json"
            aside |= "figures" in inside.parts and inside.name != "training_curves.png"
            if aside or not path.is_file() or inside.name.endswith(".tar.gz"):
                continue
            if inside.name == "environment.json":
                _add_environment(tar, path, inside)
            elif path.stat().st_size <= _MAX_FILE_BYTES:
                tar.add(path, inside)
        for folder in with_state:
            checkpoints = _to_resume(folder)
            size = sum(
                path.stat().st_size for top in checkpoints for path in top.rglob("*")
            )
            if file.tell() + size > _MAX_ARCHIVE_BYTES:
                say(
                    f"not packed: the checkpoints of {folder.path.name}, {size:,} B; "
                    "copy them, or it and what starts from it cannot go on elsewhere"
                )
                continue
            for path in checkpoints:
                tar.add(path, path.relative_to(out))
    write_file(archive, file.getvalue())
    return archive


def pack_figures(out: pathlib.Path) -> pathlib.Path:
    """Writes OUT/figures.tar.gz of all figures of the runs: some 2 MB for a report."""
    archive, file = out / "figures.tar.gz", io.BytesIO()
    with report_failure(archive), tarfile.open(fileobj=file, mode="w:gz") as tar:
        for path in sorted(out.glob("runs/*/figures/*.png")):
            tar.add(path, path.relative_to(out))
    write_file(archive, file.getvalue())
    return archive


def _to_resume(folder: RunFolder) -> list[pathlib.Path]:
    """Folders of the newest and of the best checkpoint; a resumed run needs both."""
    # Other names are those of unfinished saves.
    saved = {int(p.name): p for p in folder.checkpoints.glob("*") if p.name.isdecimal()}
    best = max(
        evaluations(folder.read_metrics()),
        key=lambda r: rank(r["accuracy"], r["loss"]),
        default={"step": -1},
    )
    steps = {max(saved, default=-1), best["step"]}
    return [saved[step] for step in sorted(saved.keys() & steps)]


def _add_environment(
    tar: tarfile.TarFile, path: pathlib.Path, inside: pathlib.Path
) -> None:
    content = read_json(path)
    for start in (content, *content.get("earlier_starts", [])):
        start.pop("host", None)
        if "command" in start:
            # "--workdir=/a/b/name" becomes "--workdir=name".
            start["command"] = [
                re.sub(r"(^|=)/(?:[^/]+/)*", r"\1", word) for word in start["command"]
            ]
    data = (json.dumps(hashed(content), indent=2) + "\n").encode()
    info = tar.gettarinfo(path, inside)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
