"""What user code can touch from a worker, for each way of holding it: real processes, and nothing simulated."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from cages import HELD, cage_for

from esper_agents.torchlab.worker.process import landlock

REFUSED = {"PermissionError", "FileNotFoundError", "OSError", "ProcessLookupError", "ConnectionRefusedError"}
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("a project")
    (root / "model.py").write_text("answer = 42\n")
    (root / "keys").mkdir()
    (root / "keys" / "signing.key").write_text("secret")
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    (folder / "id_ed25519").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def cages(tmp_path_factory, project):
    """Return what gives the one warm parent of each kind."""
    with ExitStack() as stack:
        made = {}

        def get(how):
            if how not in made:
                folder = tmp_path_factory.mktemp(how)
                made[how] = stack.enter_context(cage_for(how, folder, project, [project / "keys"]))
            return made[how]

        yield get


@pytest.fixture(params=HELD)
def cage(request, cages):
    return cages(request.param)


def test_a_worker_says_what_holds_it(cages):
    walls, landlocked = cages("walls").run("result = held"), cages("landlock").run("result = held")
    assert (walls["walled"], walls["own_network"], walls["multiprocessing"]) == (True, True, True)
    assert (landlocked["walled"], landlocked["own_network"], landlocked["multiprocessing"]) == (False, False, False)
    assert (walls["seccomp"], landlocked["seccomp"], landlocked["landlock"]) == (True, True, landlock.version())


def test_a_worker_reads_the_project_and_runs_programs(cage, project):
    code = (
        "import os, runpy, subprocess, sys\n"
        f"answer = runpy.run_path({str(project / 'model.py')!r})['answer']\n"
        "said = subprocess.run([sys.executable, '-I', '-S', '-c', 'print(7)'], capture_output=True, text=True)\n"
        f"result = [answer, said.stdout, sorted(os.listdir({str(project)!r}))]\n"
    )
    assert cage.run(code) == [42, "7\n", ["keys", "model.py"]]


def test_a_worker_cannot_read_the_machine(cage):
    # Under bubblewrap a folder above the interpreter is there, with nothing in it but the way to the interpreter.
    view = cage.view
    shown = [str(each) for each in (*view.interpreter.places, *view.roots, view.worker_folder, view.scratch)]
    code = (
        "import os\nresult = []\nfor place in ('/root', '/home', '/var', '/run', '/etc/ssh', '/boot'):\n"
        "    try:\n        result += [place + '/' + name for name in os.listdir(place)]\n"
        "    except OSError:\n        pass\n"
    )
    assert [each for each in cage.run(code) if not any(place.startswith(each) for place in shown)] == []
    assert cage.attempts("open('/etc/passwd')", "open('/etc/shadow')", "open('/etc/hostname')") == []


def test_a_worker_cannot_read_keys_in_a_home_or_in_the_project(cage, project, home):
    keys = (home / "id_ed25519", project / "keys" / "signing.key")
    assert cage.attempts(*(f"open({str(key)!r})" for key in keys)) == []


def test_a_worker_cannot_write_the_project(cage, project):
    before = (project / "model.py").stat()
    did = cage.attempts(
        "open(root + '/model.py', 'w')",
        "open(root + '/model.py', 'a')",
        "open(root + '/new.py', 'x')",
        "os.close(os.open(root + '/model.py', os.O_RDONLY | os.O_TRUNC))",
        "os.truncate(root + '/model.py', 0)",
        "os.unlink(root + '/model.py')",
        "os.rename(root + '/model.py', root + '/gone.py')",
        "os.rename(root + '/model.py', 'gone.py')",
        "os.link(root + '/model.py', 'model.py')",
        "os.mkdir(root + '/folder')",
        "os.symlink('/etc', root + '/link')",
        "os.chmod(root + '/model.py', 0o777)",
        "os.utime(root + '/model.py', (0, 0))",
        "os.setxattr(root + '/model.py', 'user.x', b'1')",
        "os.mknod('device', 0o600 | 0o020000, os.makedev(1, 1))",
        before=f"import os\nroot = {str(project)!r}",
    )
    after = (project / "model.py").stat()
    assert did == []
    assert (project / "model.py").read_text() == "answer = 42\n"
    assert sorted(path.name for path in project.iterdir()) == ["keys", "model.py"]
    assert (before.st_mode, before.st_mtime_ns, before.st_nlink) == (after.st_mode, after.st_mtime_ns, after.st_nlink)


def test_a_worker_writes_its_scratch_and_its_temporary_files(cage):
    code = (
        "import os, tempfile\n"
        "open('a', 'w').write('x')\nos.rename('a', 'b')\nos.mkdir('c')\nos.rename('b', 'c/b')\nos.truncate('c/b', 0)\n"
        "with tempfile.NamedTemporaryFile() as file:\n    file.write(b'1')\n    place = os.path.dirname(file.name)\n"
        "result = [os.listdir('c'), place == os.getcwd() == os.environ['HOME']]\n"
    )
    assert cage.run(code) == [["b"], True]


def test_a_worker_cannot_touch_the_scratch_of_another(cage):
    first = cage.fork("import os\nopen('kept', 'w').write('mine')\nresult = os.getcwd()")
    folder = cage.hear(first)["result"]
    did = cage.attempts(*(f"open({folder!r} + {what})" for what in ("'/kept'", "'/kept', 'w'", "'/new', 'w'")))
    cage.kill(first)
    assert did == []


@pytest.mark.sample(4)
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])  # noqa: S108 - what is tested
def test_a_worker_leaves_nothing_for_the_next_one(cage, place):
    cage.run(f"open('{place}/cached', 'w').write('answer')\nresult = 1")
    assert cage.attempts(f"open('{place}/cached')") == []


def test_a_worker_reaches_no_server_on_this_machine(cage, home):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(home / "agent"))
        agent.listen()
        port = server.getsockname()[1]
        did = cage.attempts(
            f"socket.create_connection(('127.0.0.1', {port}), 1)",
            f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', {port}))",
            f"socket.socket(socket.AF_UNIX).connect({str(home / 'agent')!r})",
            "socket.socket(socket.AF_VSOCK)",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
            before="import socket",
        )
    (home / "agent").unlink()
    assert did == []


def test_a_worker_under_landlock_alone_reaches_no_socket_that_it_can_see(cages, project):
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(project / "s"))
        agent.listen()
        heard = cages("landlock").run(f"import socket\nsocket.socket(socket.AF_UNIX).connect({str(project / 's')!r})")
    (project / "s").unlink()
    assert heard["raised"] == "PermissionError"


ASSAULT = """
import os, resource, signal
def trace(pid):
    if libc.ptrace(16, pid, 0, 0) < 0:
        raise OSError
ways = {
    "kill": lambda pid: os.kill(pid, signal.SIGKILL),
    "stop": lambda pid: os.kill(pid, signal.SIGSTOP),
    "kill the group": lambda pid: os.killpg(pid, signal.SIGKILL),
    "write the memory": lambda pid: open(f"/proc/{pid}/mem", "r+b"),
    "take a descriptor": lambda pid: os.readlink(f"/proc/{pid}/fd/0"),
    "trace": trace,
    "limit": lambda pid: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
    "pin": lambda pid: os.sched_setaffinity(pid, {0}),
    "make nice": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "make idle": lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
}
result = []
# Behind walls the same number may be one's own.
for pid in set(victims) - {os.getpid()}:
    for name, way in ways.items():
        try:
            way(pid)
        except OSError:
            continue
        result.append([name, pid])
"""


def test_a_worker_cannot_harm_another_or_their_parent(cage):
    parent = cage.ask(do="?")["pid"]
    sibling = cage.fork("import time\ntell('ready')\ntime.sleep(30)")
    cage.hear(sibling)
    assert cage.run(f"victims = [{sibling}, {parent}]\n{ASSAULT}") == []
    assert cage.ask(do="ended")["ended"] == []
    cage.kill(sibling)


def test_a_worker_cannot_change_the_machine_that_it_sees(cage):
    calls = {
        "a user namespace": "libc.unshare(0x10000000)",
        "a mount namespace": "libc.unshare(0x20000)",
        "a process in a user namespace": "libc.syscall(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)",
        "flags where no filter looks": "libc.syscall(435, 0, 0)",
        "a mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
        "no mount": "libc.umount2(b'/proc', 2)",
        "another root": "libc.chroot(b'/')",
        "a ring of calls": "libc.syscall(425, 8, 0)",
        "typing for others": "libc.ioctl(0, 0x5412, b'x')",
        "a name": "libc.sethostname(b'x', 1)",
        "a clock": "libc.syscall(227 if x86 else 112, 0, 0)",
        "another's descriptor": "libc.syscall(438, 3, 0, 0)",
        "a program in the kernel": "libc.syscall(321 if x86 else 280, 0, 0, 0)",
        "a key": "libc.syscall(250 if x86 else 219, 0, -3, 0)",
    }
    tried = ", ".join(f"{name!r}: ({call}, ctypes.get_errno())" for name, call in calls.items())
    code = f"import ctypes, platform\nx86 = platform.machine() == 'x86_64'\nresult = {{{tried}}}"
    # Not permitted, no access, no such call.
    wrong = {name: pair for name, pair in cage.run(code).items() if pair[0] != -1 or pair[1] not in {1, 13, 38}}
    assert wrong == {}


def test_a_worker_has_no_privileges_and_gets_none_from_a_program(cage):
    read = "[each.split()[1] for each in open('/proc/self/status') if each.startswith(('CapEff', 'CapPrm', 'NoNewPr'))]"
    code = (
        f"import subprocess, sys\nhere, source = {read}, {f'print({read})'!r}\n"
        "there = subprocess.run([sys.executable, '-I', '-S', '-c', source], capture_output=True, text=True)\n"
        "result = [here, there.stdout.strip()]\n"
    )
    none = ["0000000000000000", "0000000000000000", "1"]
    assert cage.run(code) == [none, str(none)]


def test_a_worker_cannot_write_the_settings_of_the_kernel(cage):
    now = "path = '/proc/sys/vm/swappiness'\nnow = open(path).read()"
    assert cage.attempts("open(path, 'w').write(now)", before=now) == []


def test_a_worker_ends_with_its_parent_before_everybody_else_and_without_a_core(cage):
    code = (
        "import ctypes, resource\nnumber = ctypes.c_int()\nlibc.prctl(2, ctypes.byref(number), 0, 0, 0)\n"
        "score = open('/proc/self/oom_score_adj').read().strip()\n"
        "result = [number.value, score, resource.getrlimit(resource.RLIMIT_CORE)]\n"
    )
    assert cage.run(code) == [signal.SIGKILL, "1000", [0, 0]]


@pytest.mark.parametrize("how", [*HELD, "none"])
def test_memory_beyond_the_limit_is_an_error_in_the_worker(cages, how):
    code = "held = bytearray(64 << 20)\ntell('some')\nmore = bytearray(512 << 20)"
    pid = cages(how).fork(code, memory_bytes=256 << 20)
    assert cages(how).hear(pid) == "some"
    assert cages(how).hear(pid)["raised"] == "MemoryError"
    cages(how).kill(pid)


RESERVES = """
import ctypes
libc.mmap.restype = ctypes.c_void_p
# Addresses alone, as CUDA's driver takes them: PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE.
reserved = libc.mmap(None, ctypes.c_size_t(64 << 30), 0, 0x4022, -1, ctypes.c_long(0))
tell(reserved != ctypes.c_void_p(-1).value)
more = bytearray(512 << 20)
"""


@pytest.mark.parametrize("has_cuda", [False, True])
def test_what_may_use_cuda_reserves_addresses_and_is_bounded_in_what_it_writes(cages, has_cuda):
    cage = cages("walls")
    pid = cage.fork(RESERVES, memory_bytes=256 << 20, has_cuda=has_cuda)
    assert cage.hear(pid) is has_cuda
    assert cage.hear(pid)["raised"] == "MemoryError"
    cage.kill(pid)


def test_a_worker_says_which_of_its_memory_is_bounded(cages):
    names = "result = sorted(each for each in held if each.endswith('_bytes'))"
    assert cages("walls").run(names) == ["address_space_bytes", "file_bytes"]
    assert cages("walls").run(names, has_cuda=True) == ["file_bytes", "private_bytes"]


def test_a_limit_counts_as_changed_only_where_the_worker_changed_it(cages):
    code = (
        "import resource\nfrom esper_worker.process.confine import is_as_confined as asked\n"
        "before = asked('RLIMIT_AS')\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_AS)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (soft - 4096, hard))\n"
        "result = [before, asked('RLIMIT_AS'), asked('RLIMIT_DATA'), asked('RLIMIT_CPU')]\n"
    )
    pid = cages("walls").fork(code, memory_bytes=256 << 20)
    assert cages("walls").hear(pid)["result"] == [True, False, True, False]
    cages("walls").kill(pid)


def test_files_in_memory_have_a_limit_too(cages):
    code = "import resource\nresult = [held['file_bytes'], resource.getrlimit(resource.RLIMIT_FSIZE)[0]]"
    soft = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    most = 16 << 30 if soft == resource.RLIM_INFINITY else min(soft, 16 << 30)
    assert cages("walls").run(code) == [most, most]


def test_semaphores_and_shared_memory_work_behind_walls_only(cages):
    code = (
        "import multiprocessing\nfrom multiprocessing.shared_memory import SharedMemory\n"
        "context = multiprocessing.get_context('fork')\nqueue = context.Queue()\n"
        "child = context.Process(target=queue.put, args=(7,))\nchild.start()\n"
        "memory = SharedMemory(create=True, size=8)\n"
        "result = queue.get(timeout=20)\nchild.join()\nmemory.close()\nmemory.unlink()\n"
    )
    assert cages("walls").run(code) == 7
    assert cages("landlock").run(code)["raised"] in REFUSED


def test_a_worker_talks_to_itself_where_the_network_is_its_own(cages):
    code = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "client.send(b'hello')\nresult = server.accept()[0].recv(9).decode()\n"
    )
    assert cages("walls").run(code) == "hello"
    assert cages("landlock").run(code)["raised"] == "PermissionError"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: what torch.compile needs was NOT tested")
def test_a_compiler_works_in_a_worker(cage):
    code = (
        "import ctypes, subprocess\nopen('a.c', 'w').write('int f(void) { return 7; }')\n"
        "subprocess.run(['cc', '-shared', '-fPIC', '-o', 'a.so', 'a.c'], check=True)\n"
        "result = ctypes.CDLL('./a.so').f()\n"
    )
    assert cage.run(code) == 7


@pytest.mark.parametrize("abi", range(1, landlock.version() + 1))
def test_what_older_kernels_have_holds_the_project_too(tmp_path, project, abi):
    with cage_for("landlock", tmp_path, project, abi=abi) as cage:
        assert cage.run("result = held['landlock']") == abi
        did = cage.attempts(
            "open(root + '/model.py', 'w')",
            "os.truncate(root + '/model.py', 0)",
            "os.close(os.open(root + '/model.py', os.O_RDONLY | os.O_TRUNC))",
            f"os.kill({os.getpid()}, 0)",
            "socket.create_connection(('127.0.0.1', 1))",
            before=f"import os, socket\nroot = {str(project)!r}",
        )
        assert did == []
        assert cage.run(f"result = open({str(project / 'model.py')!r}).read()") == "answer = 42\n"
        own = "import os, signal\nos.kill(os.getpid(), 0)\nsignal.raise_signal(signal.SIGWINCH)\nresult = 1"
        assert cage.run(own) == 1


def _python_for_everybody():
    for python in (sys.executable, "/usr/bin/python3"):
        # Through a shell, since whoever starts as root may still follow all paths.
        trial = [*NOBODY, "sh", "-c", 'exec "$0" -I -c "import ctypes"', python]
        if not subprocess.run(trial, capture_output=True, check=False).returncode:
            return python
    return pytest.skip("every interpreter is root's alone: the sandbox of a plain user was NOT tested")


@pytest.fixture
def open_folder():
    folder = Path(tempfile.mkdtemp(prefix="esper-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; the other tests are a plain user's")
@pytest.mark.parametrize("how", HELD)
def test_a_person_who_is_not_root_is_held_as_well(open_folder, how):
    python, secret = _python_for_everybody(), open_folder / "secret"
    (open_folder / "model.py").write_text("answer = 42\n")
    secret.mkdir()
    (secret / "key").write_text("secret")
    with cage_for(how, open_folder / "x", open_folder, [secret], prefix=NOBODY, python=python) as cage:
        root = f"import os, socket\nroot = {str(open_folder)!r}"
        assert cage.run(f"{root}\nresult = os.getuid(), open(root + '/model.py').read()") == [65534, "answer = 42\n"]
        did = cage.attempts(
            "open(root + '/secret/key')",
            "open(root + '/model.py', 'w')",
            "socket.create_connection(('127.0.0.1', 1))",
            before=root,
        )
        assert did == []
        assert cage.run("open('mine', 'w').write('x')\nresult = open('/proc/self/oom_score_adj').read()") == "1000\n"
        assert cage.run("result = held['walled']") is (how == "walls")
        pid = cage.fork("import os, time\nif os.fork() == 0:\n    time.sleep(60)\ntell('started')\ntime.sleep(60)")
        cage.hear(pid)
        cage.kill(pid)
        assert cage.ask(do="?")["children"] == []
