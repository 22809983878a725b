"""What the machine lets us use, on made-up trees of /proc and /sys."""

import os
from pathlib import Path

import pytest

from mucc.process import machine

GB = 1_000_000_000


def tree(root: Path, **files: str) -> str:
    """Write files named by paths; the root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.fixture(autouse=True)
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


MEMINFO = "MemTotal: 64000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n"
PLAIN = 20_000_000 * 1024


def test_no_control_groups(tmp_path: Path):
    root = tree(tmp_path, **{"proc/meminfo": MEMINFO})
    assert machine.cores(root) == 16 and machine.available_memory(root) == PLAIN
    assert machine.available_memory(str(tmp_path / "nothing")) is None


def test_version_2_heeds_every_group_around(tmp_path: Path):
    root = tree(
        tmp_path,
        **{
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/slice/box\n",
            "sys/fs/cgroup/slice/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/slice/memory.max": str(9 * GB),
            "sys/fs/cgroup/slice/memory.current": str(4 * GB),
            "sys/fs/cgroup/slice/memory.stat": f"anon 7\ninactive_file {GB}\n",
            "sys/fs/cgroup/slice/box/cpu.max": "max 100000\n",
            "sys/fs/cgroup/slice/box/memory.max": "max\n",
            "sys/fs/cgroup/slice/box/memory.current": str(GB),
        },
    )
    assert machine.cores(root) == 3 and machine.available_memory(root) == 6 * GB
    tree(tmp_path, **{"sys/fs/cgroup/slice/box/memory.high": str(2 * GB)})
    assert machine.available_memory(root) == GB


def test_version_1_in_a_container_that_sees_only_itself(tmp_path: Path):
    """The path is that of the host, and does not exist inside."""
    groups = "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n"
    root = tree(
        tmp_path,
        **{
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": groups,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(8 * GB),
            "sys/fs/cgroup/memory/memory.usage_in_bytes": str(3 * GB),
            "sys/fs/cgroup/memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {GB}\n",
        },
    )
    assert machine.cores(root) == 1 and machine.available_memory(root) == 6 * GB


def test_version_1_without_limits(tmp_path: Path):
    root = tree(
        tmp_path,
        **{
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/a\n1:cpu:/a\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "5\n",
        },
    )
    assert machine.cores(root) == 16 and machine.available_memory(root) == PLAIN


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path):
    root = tree(
        tmp_path,
        **{
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "5",
            "sys/fs/cgroup/memory.current": "9",
        },
    )
    assert machine.available_memory(root) == 0


def test_this_machine():
    assert machine.cores() >= 1
    assert (machine.available_memory() or GB) > 0
