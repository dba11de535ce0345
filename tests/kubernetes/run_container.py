"""Runs a command as a container of a pod would run it, without a container runtime.

usage: run_container.py SPECIFICATION.json

The command gets namespaces of its own for mounts and processes, a root file
system that it cannot write (the programs of this machine, and what is mounted),
the user 10001 without capabilities, no new privileges, and a filter of system
calls that refuses what the default profile of container runtimes refuses to a
process without capabilities: new namespaces, mounts, and the like. It needs
root. Its exit code is that of the command; SIGTERM is passed on.
"""

import ctypes
import json
import os
import signal
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 24, 38, 22
# x86-64: what needs CAP_SYS_ADMIN in the profile of the runtimes.
REFUSED = [165, 166, 155, 272, 308, 428, 429, 430, 431, 432, 442, 321, 323, 248, 249, 250, 310, 311]
CLONE, CLONE3 = 56, 435
NEW_NAMESPACES = 0x7E020000


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0, data=None):
    words = [word.encode() if word else None for word in (source, target, kind)]
    check(LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() if data else None), f"mount {target}")


def bind(source, target, readonly):
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a", encoding="utf-8").close()
    mount(source, target, None, MS_BIND | MS_REC)
    if readonly:
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def root(specification):
    """Builds the root file system and enters it."""
    top = specification["root"]
    mount("tmpfs", top, "tmpfs", 0, "mode=755")
    for name in ("usr", "etc", "proc", "dev"):
        os.mkdir(f"{top}/{name}")
    bind("/usr", f"{top}/usr", True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            os.symlink(f"usr/{name}", f"{top}/{name}")
        elif os.path.isdir(f"/{name}"):
            bind(f"/{name}", f"{top}/{name}", True)
    for name in ("ssl", "ca-certificates", "alternatives", "ld.so.cache", "resolv.conf", "hosts", "nsswitch.conf"):
        if os.path.exists(f"/etc/{name}"):
            bind(os.path.realpath(f"/etc/{name}"), f"{top}/etc/{name}", True)
    with open(f"{top}/etc/passwd", "w", encoding="utf-8") as file:
        file.write("root:x:0:0::/:/bin/sh\nparallax:x:10001:10001::/workspace/home:/bin/bash\n")
    for name in ("null", "zero", "full", "random", "urandom"):
        bind(f"/dev/{name}", f"{top}/dev/{name}", False)
    os.symlink("/proc/self/fd", f"{top}/dev/fd")
    mount("proc", f"{top}/proc", "proc")
    for source, target, readonly in specification["mounts"]:
        bind(source, top + target, readonly)
    mount(None, top, None, MS_REMOUNT | MS_RDONLY, "mode=755")
    os.chroot(top)
    os.chdir(specification["directory"])


def seccomp():
    """Refuses system calls with EPERM; clone3 as unknown, so that clone is used."""
    statement = lambda code, jt, jf, k: struct.pack("HBBI", code, jt, jf, k)
    load = lambda offset: statement(0x20, 0, 0, offset)
    equal = lambda value, jt, jf: statement(0x15, jt, jf, value)
    end = lambda value: statement(0x06, 0, 0, value)
    allow, eperm, enosys = end(0x7FFF0000), end(0x50001), end(0x50000 | 38)
    program = [load(0)]
    for number in REFUSED:
        program += [equal(number, 0, 1), eperm]
    program += [equal(CLONE3, 0, 1), enosys, equal(CLONE, 0, 3), load(16),
                statement(0x45, 0, 1, NEW_NAMESPACES), eperm, allow]
    code = b"".join(program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    check(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header), 0, 0), "seccomp")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        specification = json.load(file)
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    child = os.fork()
    if child == 0:
        try:
            root(specification)
            os.setsid()
            for capability in range(41):
                LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
            os.setgroups([])
            user = specification["user"]
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
            seccomp()
            # Only what the pod names: nothing of this machine.
            os.execvpe(specification["command"][0], specification["command"], specification["environment"])
        except Exception as error:
            print(f"run_container: {error}", file=sys.stderr, flush=True)
        os._exit(128)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
