"""Names of cards in results."""

from types import SimpleNamespace
from typing import Any

import pytest

from bench.timing import card


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("NVIDIA X1", "x1"),
    ],
)
def test_results_lie_in_a_folder_of_their_card(name: str, folder: str):
    def named(device: Any) -> str:
        return name

    assert card(SimpleNamespace(cuda=SimpleNamespace(get_device_name=named))) == folder
