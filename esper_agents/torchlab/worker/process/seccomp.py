"""System call filter: blocks calls that no measurement needs and no other mechanism stops."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from dataclasses import dataclass
from functools import lru_cache

from . import landlock
from . import syscalls as kernel

_SET_MODE_FILTER = 1
# Without it, older kernels slow down every memory access of a filtered process, and so the measurement.
_SPEC_ALLOW = 1 << 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_X32 = 0x40000000
_ARCHITECTURE = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
_COLUMN = {"x86_64": 0, "aarch64": 1}

# Every CLONE_NEW* flag except that of time namespaces, whose bit clone() reads as part of a signal number.
_NEW_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_O_TRUNC, _O_ACCMODE = 0o1000, 0o3
_TYPE_OF_SOCKET = 0xF
_ALL = 0xFFFFFFFF

# Numbers by name: on x86-64, on 64-bit Arm (0: it has none).
_NUMBERS = {
    "socket": (41, 198), "connect": (42, 203), "socketpair": (53, 199), "clone": (56, 220), "clone3": (435, 435),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "setsid": (112, 157), "setpgid": (109, 154),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "move_pages": (279, 239), "migrate_pages": (256, 238),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "fanotify_init": (300, 262),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268),
    "unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265), "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, 0), "ioperm": (173, 0),
    "syslog": (103, 116), "vhangup": (153, 58), "ioctl": (16, 29),
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "open": (2, 0), "openat": (257, 56), "openat2": (437, 437), "truncate": (76, 45),
    "chmod": (90, 0), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, 0), "fchown": (93, 55), "lchown": (94, 0), "fchownat": (260, 54),
    "utime": (132, 0), "utimes": (235, 0), "futimesat": (261, 0), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip

_NEVER = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise", "move_pages"),
    *("migrate_pages", "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "userfaultfd"),
    *("perf_event_open", "fanotify_init", "add_key", "request_key", "keyctl", "mount", "umount2", "pivot_root"),
    *("chroot", "setns", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load"),
    *("init_module", "finit_module", "delete_module", "acct", "settimeofday", "clock_settime", "clock_adjtime"),
    *("adjtimex", "sethostname", "setdomainname", "iopl", "ioperm", "syslog", "vhangup"),
)
# Landlock does not cover these, and on its own it exposes the machine's real files, sockets and processes.
_NEVER_IN_THE_OPEN = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes"),
    *("futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    *("setxattrat", "removexattrat", "shmget", "msgget", "semget", "mq_open"),
)


@dataclass(frozen=True)
class OtherConfinement:
    """Other active confinement, which the filter need not repeat.

    Attributes:
        has_own_network: A separate, empty network namespace.
        is_walled: Separate PID, mount and IPC namespaces: other processes cannot be addressed.
        landlock: Landlock version in effect; 0 for none.
    """

    has_own_network: bool
    is_walled: bool
    landlock: int


@dataclass(frozen=True)
class _Rule:
    """Rule that refuses one call unless each condition holds.

    A condition is (argument, mask, numbers, whether the masked argument must be one of the numbers or none of them).
    """

    name: str
    conditions: tuple[tuple[int, int, tuple[int, ...], bool], ...] = ()
    error: int = errno.EPERM


def is_supported() -> bool:
    """Return whether filters exist for this architecture and its kernel accepts them."""
    return kernel.MACHINE in _ARCHITECTURE and kernel.has_seccomp()


def restrict(fences: OtherConfinement, own_pid: int) -> None:
    """Filter system calls from here on, for this thread and its descendants. This cannot be undone.

    Args:
        fences: Other confinement of the process.
        own_pid: Its process id.

    Raises:
        OSError: The kernel refused the filter.
    """
    program = _program(fences, 0 if _is_for_all(fences) else own_pid)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    number = _ARCHITECTURE[kernel.MACHINE][1]
    kernel.call(number, _SET_MODE_FILTER, _SPEC_ALLOW, ctypes.c_char_p(header))


def prepare(fences: OtherConfinement) -> None:
    """Compute the filter program for later forks, if it is the same for all of them."""
    if _is_for_all(fences):
        _program(fences, 0)


def _is_for_all(fences: OtherConfinement) -> bool:
    """Return whether other confinement prevents signals to other processes, so that the process id is not needed."""
    return fences.is_walled or fences.landlock >= landlock.SCOPES_SINCE


@lru_cache(maxsize=8)
def _program(fences: OtherConfinement, own_pid: int) -> bytes:
    architecture = _ARCHITECTURE[kernel.MACHINE][0]
    refused = _step(_RETURN, _ERRNO | errno.EPERM)
    # System call numbers of another architecture have other meanings.
    steps = [_step(_LOAD, 4), _step(_EQUAL, architecture, 1, 0), refused, _step(_LOAD, 0)]
    if kernel.MACHINE == "x86_64":
        steps += [_step(_AT_LEAST, _X32, 0, 1), refused]
    for rule in _rules(fences, own_pid):
        number = _NUMBERS[rule.name][_COLUMN[kernel.MACHINE]]
        if number:
            block = _block(rule)
            steps += [_step(_EQUAL, number, 0, len(block)), *block]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand & _ALL)


def _block(rule: _Rule) -> list[bytes]:
    refuse = _step(_RETURN, _ERRNO | rule.error)
    steps: list[bytes] = []
    for argument, mask, numbers, has_to_be in rule.conditions:
        steps += [_step(_LOAD, 16 + 8 * argument), _step(_AND, mask)]
        for index, number in enumerate(numbers):
            left = len(numbers) - index - 1
            # Skips the refusal for an allowed number, jumps to it for a forbidden one.
            steps.append(_step(_EQUAL, number, left + 1 if has_to_be else left, 0 if has_to_be or left else 1))
        steps.append(refuse)
    return [*steps, _step(_RETURN, _ALLOW)] if rule.conditions else [refuse]


def _rules(fences: OtherConfinement, own_pid: int) -> list[_Rule]:
    rules = [
        _Rule("ioctl", ((1, _ALL, (_TIOCSTI, _TIOCLINUX), False),)),
        _Rule("clone", ((0, _NEW_NAMESPACES, (0,), True),)),
        _Rule("unshare", ((0, _NEW_NAMESPACES | _NEW_TIME, (0,), True),)),
        # Its flags are in memory, which a filter cannot read; the C library then falls back to clone.
        _Rule("clone3", error=errno.ENOSYS),
        *_network(fences),
    ]
    if not fences.is_walled:
        rules += _neighbours(fences, own_pid)
    if not fences.has_own_network:
        rules += [_Rule(name) for name in _NEVER_IN_THE_OPEN]
    if 0 < fences.landlock < landlock.TRUNCATE_SINCE:
        truncates = (_O_TRUNC, _O_TRUNC | _O_ACCMODE)
        rules += [
            _Rule("truncate"),
            _Rule("open", ((1, _O_TRUNC | _O_ACCMODE, truncates, False),)),
            _Rule("openat", ((2, _O_TRUNC | _O_ACCMODE, truncates, False),)),
            _Rule("openat2", error=errno.ENOSYS),
        ]
    return rules + [_Rule(name) for name in _NEVER]


def _network(fences: OtherConfinement) -> list[_Rule]:
    if fences.has_own_network:
        # Address lookups through the kernel, as at the start of a process group on the loopback.
        families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
        return [_Rule("socket", ((0, _ALL, families, True),))]
    stream = (1, _TYPE_OF_SOCKET, (socket.SOCK_STREAM, socket.SOCK_SEQPACKET), True)
    rules = [_Rule("socket", ((0, _ALL, (socket.AF_UNIX,), True), stream)), _Rule("socketpair", (stream,))]
    # Before version 9, Landlock does not block the sockets of an agent, a desktop or a container daemon.
    return rules if fences.landlock >= landlock.SOCKETS_SINCE else [*rules, _Rule("connect", error=errno.EACCES)]


def _neighbours(fences: OtherConfinement, own_pid: int) -> list[_Rule]:
    me = ((0, _ALL, (0,), True),)
    rules = [
        # All descendants stay in one group, which a single signal reaches.
        _Rule("setsid"),
        _Rule("setpgid"),
        # Otherwise it could slow down the process that it is compared with.
        *(_Rule(name, me) for name in ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler")),
        _Rule("sched_setattr", me),
        _Rule("setpriority", ((0, _ALL, (0,), True), (1, _ALL, (0,), True))),
        _Rule("ioprio_set", ((0, _ALL, (1,), True), (1, _ALL, (0,), True))),
    ]
    if not _is_for_all(fences):
        own = ((0, _ALL, (0, own_pid), True),)
        group = ((0, _ALL, (0, own_pid, -own_pid & _ALL), True),)
        rules += [_Rule("kill", group), *(_Rule(name, own) for name in ("tkill", "tgkill"))]
        rules += [_Rule(name, own) for name in ("rt_sigqueueinfo", "rt_tgsigqueueinfo")]
        rules += [_Rule("pidfd_send_signal")]
    return rules
