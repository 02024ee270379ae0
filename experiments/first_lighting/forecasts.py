"""The forecasts that are kept in the repository.

Each is experiments/forecasts/TARGET/NAME/forecast.json, as `experiments.forecast
--target=TARGET --out=experiments/forecasts/TARGET/NAME` writes it.
"""

import json
import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / "forecasts"


def read_forecast(config: str, device: str) -> dict[str, float] | None:
    """Milliseconds of a config's train step, forecast for a device; None without one.

    Args:
      config: as the forecast was asked for, "configs/NAME.py:VARIANT".
      device: as JAX calls it; "NVIDIA GeForce RTX 4090" is the target rtx4090.

    Returns:
      "floor", "expected" and "pessimistic".
    """
    name = device.lower().replace(" ", "")
    for file in FOLDER.glob("*/*/forecast.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        if file.parts[-3] in name and content["config"] == config:
            return content["step_ms"]
    return None
