"""What is said of a machine: read from recorded system files, and from the machine that the tests run on."""

from __future__ import annotations

import getpass
import json
import os
import platform
from pathlib import Path

import pytest

from esper_agents.torchlab.environment import host, ranges

LAPTOP = {
    "etc/os-release": 'NAME="Fedora Linux"\nPRETTY_NAME="Fedora Linux 42"\n',
    "proc/cpuinfo": (
        "processor\t: 0\nmodel name\t: 13th Gen Intel(R)  Core(TM) i7\nphysical id\t: 0\ncore id\t\t: 0\n"
        "flags\t\t: fpu sse4_2 avx avx2 fma f16c avx_vnni smep smx rdrand amx_tile\n\n"
        "processor\t: 1\nmodel name\t: 13th Gen Intel(R)  Core(TM) i7\nphysical id\t: 0\ncore id\t\t: 0\n"
        "flags\t\t: fpu sse4_2 avx avx2 fma f16c avx_vnni smep smx rdrand amx_tile\n\n"
    ),
    "proc/meminfo": "MemTotal:   16000 kB\nMemAvailable:  8000 kB\nSwapTotal:     0 kB\nHugePages_Total:   0\n",
    "proc/loadavg": "0.52 1.04 2.00 1/345 6789\n",
    "proc/pressure/cpu": (
        "some avg10=12.50 avg60=3.00 avg300=1.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    ),
    "proc/pressure/io": "some avg10=0.00 avg60=0.10 avg300=0.00 total=5\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/devices/system/cpu/smt/control": "on\n",
    "sys/devices/system/cpu/isolated": "\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/module/nvidia/version": "580.95.05\n",
}
ARM = {
    "proc/cpuinfo": (
        "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes sve i8mm bf16 asimddp svei8mm\n"
        "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    ),
    "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "sys/class/dmi/id/product_name": "c7g.large\n",
    "sys/hypervisor/type": "kvm\n",
    "run/.containerenv": "",
}


@pytest.fixture
def machine(tmp_path):
    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return host(tmp_path)

    return write


def test_a_laptop_is_described_as_its_files_say(machine):
    told = machine(LAPTOP)

    assert told["os"]["distribution"] == "Fedora Linux 42"
    assert told["os"]["transparent_hugepages"] == "madvise"
    assert told["os"]["clock_source"] == "tsc"
    assert told["os"]["nvidia_driver"] == "580.95.05"
    assert told["cpu"]["model"] == "13th Gen Intel(R) Core(TM) i7"
    assert told["cpu"]["cores"] == 1
    assert told["cpu"]["governor"] == "performance, powersave"
    assert told["cpu"]["turbo"] == "off"
    assert (told["cpu"]["smt"], told["cpu"]["isolated"], told["cpu"]["numa_nodes"]) == ("on", "none", 1)
    assert told["memory"] == {"total_bytes": 16_384_000, "available_bytes": 8_192_000, "swap_bytes": 0}
    assert told["load"] == {"minutes_1": 0.52, "minutes_5": 1.04, "minutes_15": 2.0}


def test_of_the_features_those_that_change_how_tensors_are_computed_are_kept(machine):
    assert machine(LAPTOP)["cpu"]["features"] == ["amx_tile", "avx", "avx2", "avx_vnni", "f16c", "fma", "sse4_2"]


def test_pressure_is_told_in_percent_and_absent_where_the_kernel_has_none(machine):
    pressure = machine(LAPTOP)["pressure"]

    assert pressure["cpu"] == {"some_10_s": 12.5, "some_60_s": 3.0, "full_10_s": 0.0, "full_60_s": 0.0}
    assert pressure["io"] == {"some_10_s": 0.0, "some_60_s": 0.1}
    assert pressure["memory"] == "absent"


def test_an_arm_machine_in_a_cloud_has_numbers_for_a_model(machine):
    told = machine(ARM)

    assert told["cpu"]["model"] == "implementer 0x41, part 0xd40"
    assert told["cpu"]["features"] == ["asimd", "asimddp", "bf16", "i8mm", "sve", "svei8mm"]
    assert told["cpu"]["cores"] == "unknown"
    assert told["virtualisation"] == {"container": "podman", "hypervisor": "kvm"}


def test_what_a_system_does_not_have_is_absent_and_never_a_number(machine):
    told = machine({})

    assert told["cpu"]["features"] == "unknown"
    assert (told["cpu"]["governor"], told["cpu"]["turbo"], told["cpu"]["smt"]) == ("absent", "absent", "absent")
    assert set(told["memory"].values()) == {"absent"}
    assert set(told["pressure"].values()) == {"absent"}
    assert told["limits"]["version"] == "absent"
    assert (told["os"]["distribution"], told["os"]["nvidia_driver"]) == ("absent", "absent")


def test_this_machine_is_described_without_anything_private():
    told = host()
    text = json.dumps(told, allow_nan=False)

    assert told["os"]["system"] == platform.system()
    assert told["cpu"]["logical"] == os.cpu_count()
    assert platform.node() not in text or len(platform.node()) < 4
    assert getpass.getuser() not in text.replace("-", " ").split()
    assert "/home" not in text
    assert f"{Path.home()}/" not in text


@pytest.mark.parametrize(("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 3, 8), "0-3,8"), ((1, 3, 5), "1,3,5")])
def test_rising_numbers_are_written_as_ranges(numbers, text):
    assert ranges(numbers) == text
