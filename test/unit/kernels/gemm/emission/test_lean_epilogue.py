"""Where the lean epilogue puts the accumulator: every element once, swizzled as tensor maps do it."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter

import pytest

from mucc.files.package import INCLUDES

PROGRAM = """
#include <mucc/fragment.h>
#include <cstdio>
#include <initializer_list>
using namespace mucc::fragment;
int main() {
  for (int t = 0; t < 128; ++t)
    std::printf("thread %d %d %d %d %d %d\\n", row(t), col(t), matrix_row(t % 32), matrix_byte(t % 32),
                transposed_row(t % 32), transposed_byte(t % 32));
  for (int width = 32; width <= 128; width *= 2)
    for (int r = 0; r < 64; ++r)
      for (int b = 0; b < width; ++b)
        std::printf("swizzled %d %d %d %d\\n", width, r, b, swizzled(r, b, width));
  for (int blocks = 1; blocks <= 2; ++blocks)
    for (int mma = 16; mma <= 256; mma *= 2)
      for (int m = 0; m < blocks; ++m)
        for (int c = 0; c < 256; c += 8)
          std::printf("index %d %d %d %d %d\\n", blocks, mma, m, c, index(m, c, blocks, mma));
  for (int width = 16; width <= 32; width *= 2)
    for (int low : {0, 5, 32, 96, 136})
      for (int count : {1, 8, 40, 88})
        for (int column = 0; column < 256; column += width) {
          Share const s = share(column, width, low, count);
          int const first = s.is_any() ? s.first : 0, end = s.is_any() ? s.end : 0;
          std::printf("share %d %d %d %d ", width, low, count, column);
          std::printf("%d %d %d %d\\n", s.at, first, end, s.is_mapped());
        }
}
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, ...]]]:
    """The values of the header's functions: rows of numbers by the function's name."""
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("fragment")
    (folder / "a.cpp").write_text(PROGRAM)
    program = folder / "a"
    command = [
        gxx,
        "-std=c++17",
        "-Wall",
        "-Werror",
        *(f"-I{path}" for path in INCLUDES),
        str(folder / "a.cpp"),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    rows: dict[str, list[tuple[int, ...]]] = {}
    for line in lines:
        name, *values = line.split()
        rows.setdefault(name, []).append(tuple(map(int, values)))
    return rows


def _swizzle(numbers: dict[str, list[tuple[int, ...]]], width: int) -> dict[tuple[int, int], int]:
    return {(r, b): to for w, r, b, to in numbers["swizzled"] if w == width}


def _by_hand(row: int, byte: int, width: int) -> int:
    """The documented pattern: bits 4 and up are exchanged with bits 7 and up; 1, 2 or 3 of them."""
    bits = {32: 1, 64: 2, 128: 3}[width]
    flat = row * width + byte
    return flat ^ ((flat >> 7 & (1 << bits) - 1) << 4)


@pytest.mark.parametrize("width", [32, 64, 128])
def test_swizzle_is_that_of_tensor_maps(numbers: dict[str, list[tuple[int, ...]]], width: int) -> None:
    places = _swizzle(numbers, width)
    assert places == {(r, b): _by_hand(r, b, width) for r, b in places}
    assert sorted(places.values()) == list(range(64 * width))


def test_threads_hold_each_element_of_a_block_once(numbers: dict[str, list[tuple[int, ...]]]) -> None:
    held = Counter(
        (row + 8 * half, col + i) for row, col, *_ in numbers["thread"] for half in (0, 1) for i in (0, 1)
    )
    assert held == Counter({(r, c): 1 for r in range(64) for c in range(8)})


def test_registers_of_a_tile_are_each_used_once(numbers: dict[str, list[tuple[int, ...]]]) -> None:
    for blocks in (1, 2):
        for mma in (16, 32, 64, 128, 256):
            firsts = [i for b, n, _, _, i in numbers["index"] if (b, n) == (blocks, mma)]
            registers = sorted(i + j for i in firsts for j in range(4))
            assert registers == list(range(blocks * 256 // 2))


@pytest.mark.parametrize(("width", "groups"), [(32, 2), (64, 4)])
def test_stmatrix_writes_each_16_bit_element_once_and_where_it_belongs(
    numbers: dict[str, list[tuple[int, ...]]], width: int, groups: int
) -> None:
    # The matrices of one instruction: which (row half, column group) each of its four registers holds.
    order = [(0, 0), (1, 0), (0, 1), (1, 1)]
    places = _swizzle(numbers, width)
    written: dict[int, tuple[int, int]] = {}
    for warp in range(4):
        lanes = numbers["thread"][32 * warp : 32 * warp + 32]
        for group in range(0, groups, 2):
            to = [places[16 * warp + mrow, mbyte] ^ (group * 16) for _, _, mrow, mbyte, *_ in lanes]
            for matrix, (half, column) in enumerate(order):
                rows = [to[8 * matrix + i] for i in range(8)]
                # Eight rows of 16 bytes go out at once: they must lie in different banks.
                assert len({address % 128 // 16 for address in rows}) == 8
                for row, col, *_ in lanes:
                    for i in (0, 1):
                        address = rows[row % 8] + 2 * (col + i)
                        assert address not in written
                        written[address] = (row + 8 * half, 8 * (group + column) + col + i)
    assert written == {to: (r, b // 2) for (r, b), to in places.items() if b % 2 == 0}


@pytest.mark.parametrize("groups", [2, 4])
def test_transposed_stmatrix_writes_each_element_once_and_where_it_belongs(
    numbers: dict[str, list[tuple[int, ...]]], groups: int
) -> None:
    order = [(0, 0), (1, 0), (0, 1), (1, 1)]
    places = _swizzle(numbers, 128)
    written: dict[int, tuple[int, int]] = {}
    for warp in range(4):
        lanes = numbers["thread"][32 * warp : 32 * warp + 32]
        for group in range(0, groups, 2):
            to = [places[trow, 32 * warp + tbyte] + group * 8 * 128 for *_, trow, tbyte in lanes]
            for matrix, (half, column) in enumerate(order):
                rows = [to[8 * matrix + i] for i in range(8)]
                assert len({address % 128 // 16 for address in rows}) == 8
                for row, col, *_ in lanes:
                    for i in (0, 1):
                        # What a thread holds in column c goes to the c-th of the eight rows.
                        address = rows[col + i] + 2 * (row % 8)
                        assert address not in written
                        written[address] = (row + 8 * half, 8 * (group + column) + col + i)
    expected = {to: (b // 2, c) for (c, b), to in places.items() if b % 2 == 0 and c < 8 * groups}
    assert written == expected


@pytest.mark.parametrize(("width", "groups"), [(64, 2), (128, 4)])
def test_pairs_of_f32_are_written_once_and_where_they_belong(
    numbers: dict[str, list[tuple[int, ...]]], width: int, groups: int
) -> None:
    places = _swizzle(numbers, width)
    written: dict[int, tuple[int, int]] = {}
    for group in range(groups):
        for half in (0, 1):
            for first in range(0, 128, 16):  # eight bytes each: half a warp at a time
                banks: Counter[int] = Counter()
                for row, col, *_ in numbers["thread"][first : first + 16]:
                    address = (places[row, 4 * col] ^ (group * 32)) + half * 8 * width
                    assert address % 8 == 0 and address not in written
                    written[address] = (row + 8 * half, 8 * group + col)
                    banks[address % 128 // 8] += 1
                assert max(banks.values()) <= 2
    assert written == {to: (r, b // 4) for (r, b), to in places.items() if b % 8 == 0}


def test_boxes_store_each_column_of_a_range_once_and_none_before_it(
    numbers: dict[str, list[tuple[int, ...]]],
) -> None:
    stored: dict[tuple[int, int, int], list[int]] = {}
    for width, low, count, column, at, first, end, mapped in numbers["share"]:
        assert at == column - low
        # Coordinates of TMA's stores are not negative; what lies behind a matrix it leaves out itself.
        assert not mapped or (first == 0 and at >= 0)
        stored.setdefault((width, low, count), []).extend(at + c for c in range(first, end))
    for (_, _, count), columns in stored.items():
        assert sorted(columns) == list(range(count))
