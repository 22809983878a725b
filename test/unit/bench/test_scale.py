"""The simulation of many compilers and GPUs."""

from __future__ import annotations

from dataclasses import replace

from bench import scale
from bench.scale import TIMES, Farm, recorded_costs, simulated


def farm(way: scale.Way, workers: int, gpus: int, times: scale.Times = TIMES) -> dict[str, object]:
    """Simulate 40 problems with 4 candidates each of 10 skeletons."""
    return dict(simulated(Farm(40, 4, 10, workers, gpus, way, times)))


def test_more_workers_help_until_the_owner_is_the_limit():
    few, many, more = (farm("jobs", workers, 64) for workers in (1, 200, 400))
    assert few["limit"] == "workers" and float(str(few["workers_busy"])) > 0.9
    assert float(str(few["hours"])) > 4 * float(str(many["hours"]))
    slow = replace(TIMES, compile=20.0)
    bound = farm("jobs", 200, 64, slow)
    assert bound["limit"] == "owner" and float(str(bound["owner_busy"])) > 0.9
    assert float(str(bound["hours"])) >= 40 * 4 * 20.0 / 3600
    assert more["hours"] == many["hours"]


def test_costs_of_the_owner_may_be_those_that_are_recorded():
    kept = replace(TIMES, **recorded_costs())
    assert set(recorded_costs()) == {"compile", "task", "record"}
    assert all(0 < getattr(kept, name) < 1 for name in recorded_costs())
