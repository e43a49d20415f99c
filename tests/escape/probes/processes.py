PID = ARGS["pid"]
SEEN = "/proc/%d" % PID


def vector(buffer):
    return ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(buffer), len(buffer)))


def readv(name, pid, address):
    buffer = ctypes.create_string_buffer(8)
    there = ctypes.create_string_buffer(struct.pack("PN", address, 8))
    call(name, pid, vector(buffer), 1, there, 1, 0)


def own_child(act):
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    try:
        act(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def descriptor_of(pid):
    call("pidfd_getfd", call("pidfd_open", pid, 0), 0, 0)


def traced(pid):
    call("ptrace", 0x4206, pid, 0, 0)


def address_of(pid):
    with open("/proc/%d/maps" % pid) as maps:
        return next(int(line.split("-")[0], 16) for line in maps if " r" in line)


def injected():
    import fcntl, pty
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(0, 0x5412, b"x")
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(number, os.strerror(number))


mine = ctypes.create_string_buffer(b"mine")
for name in ("environ", "maps", "mem", "exe", "auxv", "stack", "syscall", "io", "personality"):
    probe("open %s" % name)(lambda name=name: os.read(os.open(SEEN + "/" + name, os.O_RDONLY), 0))
probe("follow root")(lambda: os.listdir(SEEN + "/root/"))
probe("follow cwd")(lambda: os.listdir(SEEN + "/cwd/"))
probe("list descriptors")(lambda: os.listdir(SEEN + "/fd"))
probe("open descriptor 0")(lambda: os.open(SEEN + "/fd/0", os.O_RDONLY))
probe("write to memory")(lambda: os.open(SEEN + "/mem", os.O_RDWR))
probe("write oom_score_adj")(lambda: os.open(SEEN + "/oom_score_adj", os.O_WRONLY))
probe("read link of namespace")(lambda: os.readlink(SEEN + "/ns/net"))
probe("overwrite program")(lambda: os.close(os.open(SEEN + "/exe", os.O_RDONLY)))
probe("ptrace")(lambda: traced(PID))
probe("ptrace own child")(lambda: own_child(traced))
probe("process_vm_readv")(lambda: readv("process_vm_readv", PID, address_of(PID)))
probe("process_vm_readv own child")(lambda: own_child(lambda pid: readv(
    "process_vm_readv", pid, ctypes.addressof(mine))))
probe("process_vm_writev own child")(lambda: own_child(lambda pid: readv(
    "process_vm_writev", pid, ctypes.addressof(mine))))
probe("pidfd_getfd")(lambda: descriptor_of(PID))
probe("pidfd_getfd own child")(lambda: own_child(descriptor_of))
probe("kcmp")(lambda: call("kcmp", PID, os.getpid(), 2, 0, 0))
probe("prlimit64")(lambda: call("prlimit64", PID, 7, ctypes.create_string_buffer(struct.pack("QQ", 64, 64)), 0))
probe("inject into a terminal")(injected)
if ARGS["outside"]:
    for pid in ARGS["outside"]:
        probe("signal %d" % pid)(lambda pid=pid: os.kill(pid, 0))
        probe("pidfd_open %d" % pid)(lambda pid=pid: call("pidfd_open", pid, 0))
        probe("look at %d" % pid)(lambda pid=pid: os.listdir("/proc/%d/task" % pid))
        probe("renice %d" % pid)(lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19))
main()
