"""The filter's program, run step by step as the kernel does, also for the machine that this one is not."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from esper_agents.torchlab.worker.process import seccomp, syscalls
from esper_agents.torchlab.worker.process.seccomp import OtherConfinement

ALLOWED = 0
ALONE = OtherConfinement(has_own_network=False, is_walled=False, landlock=7)
OLD = OtherConfinement(has_own_network=False, is_walled=False, landlock=2)
WALLED = OtherConfinement(has_own_network=True, is_walled=True, landlock=7)
PID = 4711


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request, monkeypatch):
    monkeypatch.setattr(syscalls, "MACHINE", request.param)
    return request.param


def verdict(machine, fences, name, *arguments, architecture=None, number=None):
    """Return the error number with which the filter answers a system call; 0 where it lets it through."""
    program = seccomp._program.__wrapped__(fences, PID)
    if number is None:
        number = seccomp._NUMBERS[name][seccomp._COLUMN[machine]]
    architecture = architecture or seccomp._ARCHITECTURE[machine][0]
    wide = [each & 0xFFFFFFFFFFFFFFFF for each in (*arguments, *[0] * 6)][:6]
    call = struct.pack("=IIQ6Q", number, architecture, 0, *wide)
    steps = list(struct.iter_unpack("=HBBI", program))
    held, place = 0, 0
    while True:
        code, if_true, if_false, operand = steps[place]
        place += 1
        if code == 0x20:
            held = struct.unpack_from("=I", call, operand)[0]
        elif code == 0x54:
            held &= operand
        elif code == 0x15:
            place += if_true if held == operand else if_false
        elif code == 0x35:
            place += if_true if held >= operand else if_false
        else:
            assert code == 0x06
            return ALLOWED if operand == 0x7FFF0000 else operand & 0xFFFF


def test_what_every_program_does_is_let_through(machine):
    for fences in (ALONE, OLD, WALLED):
        # read, write, close, mmap, futex, exit_group: as the kernel numbers them.
        for number in (0, 1, 3, 9, 202, 231) if machine == "x86_64" else (63, 64, 57, 222, 98, 94):
            assert verdict(machine, fences, "", number=number) == ALLOWED
        assert verdict(machine, fences, "clone", 0x3D0F00) == ALLOWED
        assert verdict(machine, fences, "openat", -100, 0, 0o2000000) == ALLOWED
        assert verdict(machine, fences, "ioctl", 1, 0x5401) == ALLOWED
        assert verdict(machine, fences, "prlimit64", 0, 7) == ALLOWED


@pytest.mark.sample(52)
@pytest.mark.parametrize("name", seccomp._NEVER)
def test_what_no_measurement_needs_is_refused_everywhere(machine, name):
    if seccomp._NUMBERS[name][seccomp._COLUMN[machine]]:
        assert {verdict(machine, fences, name) for fences in (ALONE, OLD, WALLED)} == {errno.EPERM}


def test_the_numbers_of_another_architecture_are_refused(machine):
    assert verdict(machine, WALLED, "", number=1, architecture=0x40000003) == errno.EPERM
    if machine == "x86_64":
        assert verdict(machine, WALLED, "", number=0x40000000 + 1) == errno.EPERM


def test_namespaces_cannot_be_made(machine):
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(machine, WALLED, "clone", flag | 17) == errno.EPERM
        assert verdict(machine, WALLED, "unshare", flag) == errno.EPERM
    assert verdict(machine, WALLED, "unshare", 0x80) == errno.EPERM
    assert verdict(machine, WALLED, "unshare", 0x400) == ALLOWED
    assert verdict(machine, WALLED, "clone3", 0, 0) == errno.ENOSYS


def test_sockets_are_those_of_ones_own_network_or_none(machine):
    stream, datagram = socket.SOCK_STREAM | socket.SOCK_CLOEXEC, socket.SOCK_DGRAM
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
        assert verdict(machine, WALLED, "socket", family, datagram) == ALLOWED
        assert verdict(machine, ALONE, "socket", family, datagram) == errno.EPERM
    assert verdict(machine, ALONE, "socket", socket.AF_UNIX, stream) == ALLOWED
    assert verdict(machine, ALONE, "socket", socket.AF_INET, stream) == errno.EPERM
    assert verdict(machine, ALONE, "socketpair", socket.AF_UNIX, stream) == ALLOWED
    assert verdict(machine, ALONE, "socketpair", socket.AF_UNIX, datagram) == errno.EPERM
    for family in (socket.AF_VSOCK, socket.AF_PACKET, 38, 44):
        assert verdict(machine, WALLED, "socket", family, stream) == errno.EPERM


def test_sockets_on_disk_are_reached_only_where_something_else_says_which(machine):
    assert verdict(machine, WALLED, "connect") == ALLOWED
    assert verdict(machine, ALONE, "connect") == errno.EACCES
    assert verdict(machine, OtherConfinement(has_own_network=False, is_walled=False, landlock=9), "connect") == ALLOWED


def test_other_processes_are_out_of_reach_where_they_can_be_named(machine):
    for name in ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"):
        assert verdict(machine, ALONE, name, 0) == ALLOWED
        assert verdict(machine, ALONE, name, 1234) == errno.EPERM
        assert verdict(machine, WALLED, name, 1234) == ALLOWED
    assert verdict(machine, ALONE, "setpriority", 0, 0, 5) == ALLOWED
    assert verdict(machine, ALONE, "setpriority", 0, 1234, 5) == errno.EPERM
    assert verdict(machine, ALONE, "setpriority", 2, 0, 5) == errno.EPERM
    assert verdict(machine, ALONE, "setsid") == verdict(machine, ALONE, "setpgid") == errno.EPERM
    assert verdict(machine, WALLED, "setsid") == ALLOWED


def test_signals_go_to_oneself_where_landlock_does_not_hold_them(machine):
    for target in (0, PID, -PID):
        assert verdict(machine, OLD, "kill", target, 9) == ALLOWED
    for target in (1, -1, 1234, -1234):
        assert verdict(machine, OLD, "kill", target, 9) == errno.EPERM
        assert verdict(machine, ALONE, "kill", target, 9) == ALLOWED
    assert verdict(machine, OLD, "tgkill", PID, PID, 6) == ALLOWED
    assert verdict(machine, OLD, "tgkill", 1234, 1234, 6) == errno.EPERM


def test_files_are_not_cut_short_where_landlock_does_not_hold_that(machine):
    assert verdict(machine, OLD, "truncate") == errno.EPERM
    assert verdict(machine, OLD, "openat", -100, 0, 0o1000) == errno.EPERM
    assert verdict(machine, OLD, "openat", -100, 0, 0o1001) == ALLOWED
    assert verdict(machine, OLD, "openat2") == errno.ENOSYS
    assert verdict(machine, ALONE, "openat", -100, 0, 0o1000) == ALLOWED


def test_modes_and_times_are_left_alone_where_files_are_the_real_ones(machine):
    for name in ("fchmod", "fchmodat", "fchownat", "utimensat", "setxattr", "shmget", "mq_open"):
        assert verdict(machine, ALONE, name) == errno.EPERM
        assert verdict(machine, WALLED, name) == ALLOWED


def test_nobody_types_into_a_terminal(machine):
    for request in (0x5412, 0x541C, 0x100005412):
        assert verdict(machine, WALLED, "ioctl", 0, request) == errno.EPERM
