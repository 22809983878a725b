"""Figures of the documentation: as recorded results have them, and drawn so that what is slower shows."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.common import RESULTS, ROOT
from bench.figures.__main__ import main, table
from bench.figures.contents import FIGURES
from bench.figures.drawing import WIDTH, Axis, Figure, Strip, svg

DRAWN = {figure.name: figure for figure in (make() for make in FIGURES)}


def test_figures_are_up_to_date(capsys: pytest.CaptureFixture[str]):
    assert main(["--check"]) == 0, f"run python -m bench.figures\n{capsys.readouterr().out}"


def test_a_changed_figure_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(ROOT / "docs" / "figures", tmp_path / "figures")
    shutil.copy(ROOT / "docs" / "figures.md", tmp_path)
    assert main(["--check"], tmp_path) == 0
    drawn = tmp_path / "figures" / "models.svg"
    drawn.write_text(drawn.read_text().replace("1.07", "1.17"))
    assert main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "figures/models.svg is not what python -m bench.figures makes\n"
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0


@pytest.mark.parametrize(
    ("figure", "label", "card", "result", "summary"),
    [
        ("overview", "bf16 products, tuned / cuBLASLt, H200", "h200", "gemm", "gemm.bf16.tuned_over_cublas"),
        ("overview", "bf16 attention / best of SDPA", "h100_sxm", "attention", "attention.over_best_sdpa"),
        ("attention", "gradients, bf16 / SDPA", "h100_sxm", "attention", "attention.backward_over_sdpa"),
        (
            "convolutions",
            "gradients of weights, bf16 / cuDNN",
            "h100_sxm",
            "conv",
            "conv.weights_bf16_over_best_cudnn",
        ),
        (
            "models",
            "parts of models, reduce-overhead",
            "h100_sxm",
            "models",
            "models.over_inductor.reduce_overhead",
        ),
    ],
)
def test_means_are_those_of_the_benchmarks(figure: str, label: str, card: str, result: str, summary: str):
    recorded = json.loads((RESULTS / card / f"{result}.json").read_text())["summary"]
    strip = next(s for s in DRAWN[figure].strips if s.label == label)
    assert strip.mean == pytest.approx(recorded[f"{summary}_geomean"], abs=1e-4)
    assert strip.least[1] == pytest.approx(recorded[f"{summary}_min"], abs=1e-4)


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_small_and_says_what_it_shows(name: str):
    text = svg(DRAWN[name])
    root = ElementTree.fromstring(text)
    words = {element.tag.rpartition("}")[2]: element.text or "" for element in root}
    assert words["title"] == DRAWN[name].title and words["desc"] == DRAWN[name].alt
    assert "prefers-color-scheme:dark" in text and len(text) < 20_000
    for element in root.iter():
        if element.tag.endswith("text"):
            # Letters of DejaVu Sans, which is wide, in its sizes of 13 and, bold, of 15.
            wide = len(element.text or "") * (10 if element.get("class") == "h" else 7.4)
            x, anchor = float(element.get("x", 0)), element.get("text-anchor")
            assert x >= wide if anchor == "end" else x + wide <= WIDTH + 8 or anchor, element.text


@pytest.mark.parametrize("name", DRAWN)
def test_labels_do_not_touch_figures(name: str):
    assert all(len(strip.label) * 7.4 < WIDTH - 28 - 12 * 7.4 for strip in DRAWN[name].strips)


def test_slower_shapes_are_rings_and_the_least_is_named():
    strip = Strip("ours / theirs", {"small": 0.5, "even": 1.0, "large": 2.0})
    figure = Figure("f", "A figure", [strip])
    text = svg(figure)
    assert text.count("a3 3 0 1 0 6 0") == 1 and text.count("h0") == 2
    assert "1.00 (0.50)" in text
    assert "| ours / theirs | 3 | 1.00 | 1 | 0.50, small |" in table(figure)


def test_an_axis_is_logarithmic_and_has_all_values():
    axis = Axis([0.33, 25.0], 0, 100)
    assert (axis.low, axis.high) == (0.25, 32)
    assert axis.at(2.0) - axis.at(1.0) == pytest.approx(axis.at(4.0) - axis.at(2.0), abs=0.2)
    assert axis.at(0.25) == 0 and axis.at(32) == 100
