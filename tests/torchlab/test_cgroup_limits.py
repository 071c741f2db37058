"""Limits by control groups, of both versions, from recorded system files."""

from __future__ import annotations

import pytest

from esper_agents.torchlab.cgroup_limits import limits

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)


@pytest.fixture
def of(tmp_path):
    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return limits(tmp_path)

    return write


def test_version_2_takes_the_tightest_of_all_groups_above(of):
    group = "sys/fs/cgroup/user.slice/job"
    told = of(
        {
            "proc/self/mountinfo": V2,
            "proc/self/cgroup": "0::/user.slice/job\n",
            f"{group}/cpu.max": "400000 100000\n",
            f"{group}/memory.max": "max\n",
            f"{group}/memory.current": "123456\n",
            f"{group}/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 4\n",
            "sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user.slice/memory.max": "1073741824\n",
            "sys/fs/cgroup/user.slice/cpuset.cpus.effective": "0-3\n",
        }
    )

    assert told == {
        "version": "v2",
        "cpu_cores": 1.5,
        "cpus": "0-3",
        "memory_bytes": 1 << 30,
        "memory_used_bytes": 123456,
        "throttled_periods": 4,
    }


def test_version_1_is_read_by_controller_and_its_largest_number_is_no_limit(of):
    told = of(
        {
            "proc/self/mountinfo": V1,
            "proc/self/cgroup": "4:memory:/box\n3:cpuset:/\n2:cpu,cpuacct:/box\n0::/\n",
            "sys/fs/cgroup/unified/cgroup.procs": "1\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.stat": "nr_periods 1\nnr_throttled 0\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "4096\n",
            "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "2\n",
        }
    )

    assert told == {
        "version": "v1",
        "cpu_cores": 0.5,
        "cpus": "2",
        "memory_bytes": "none",
        "memory_used_bytes": 4096,
        "throttled_periods": 0,
    }


def test_in_a_container_the_mount_may_begin_at_the_group_itself(of):
    told = of(
        {
            "proc/self/mountinfo": "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
            "proc/self/cgroup": "0::/docker/abc\n",
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/memory.max": "536870912\n",
        }
    )

    assert (told["cpu_cores"], told["memory_bytes"], told["throttled_periods"]) == (2.0, 512 << 20, "absent")


def test_no_limit_and_no_group_are_different(of):
    assert of({})["cpu_cores"] == "absent"
    told = of(
        {
            "proc/self/mountinfo": V2,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/memory.max": "max\n",
        }
    )
    assert (told["version"], told["cpu_cores"], told["memory_bytes"]) == ("v2", "none", "none")


def test_files_that_make_no_sense_are_no_limit(of):
    told = of(
        {
            "proc/self/mountinfo": V2 + "what is this\n",
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cpu.max": "100000 0\n",
            "sys/fs/cgroup/memory.max": "-1\n",
        }
    )
    assert (told["cpu_cores"], told["memory_bytes"]) == ("none", "none")
