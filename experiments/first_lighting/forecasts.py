"""The forecasts that are kept in the repository."""

import json
import pathlib

FILE = pathlib.Path(__file__).parents[1] / "forecasting" / "forecasts.json"


def read_forecast(config: str, device: str) -> dict[str, float] | None:
    """Seconds of a config's train step, forecast for a device; None without one.

    Returns:
      "floor", "expected" and "pessimistic", as `experiments.forecast` writes them.
    """
    if not FILE.exists():
        return None
    tables = json.loads(FILE.read_text())
    words = device.lower().split()
    (table,) = [tables[target] for target in tables if target in words] or [{}]
    return table.get(config, {}).get("step_seconds")
