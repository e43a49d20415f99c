def read(path):
    with open(path, "rb") as file:
        file.read(1)


def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)


def setuid_program():
    """Whose rights a program has that is marked to run as root."""
    program = subprocess.Popen(["su"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # What has ended still tells, until it is waited for.
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    with open("/proc/%d/status" % program.pid) as status:
        effective = next(line.split()[2] for line in status if line.startswith("Uid:"))
    return effective == "0"


def marked_copy():
    """Of a program of one's own, marked: it must not be honoured even so."""
    copy = scratch().decode() + "/copy"
    subprocess.run(["cp", "/usr/bin/env", copy], check=True)
    os.chmod(copy, 0o6755)
    flags = [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] in ("/tmp", "/")]
    with open("/proc/self/status") as status:
        if any(line.split() == ["NoNewPrivs:", "1"] for line in status):
            return False
    return not all("nosuid" in flag for flag in flags)


for path in ARGS["read"]:
    probe("read " + path)(lambda path=path: read(path))
for path in ARGS["list"]:
    probe("list " + path)(lambda path=path: os.listdir(path))
for path in ARGS["write"]:
    probe("write " + path)(lambda path=path: os.close(os.open(path, os.O_WRONLY)))
    probe("write %s, held open" % path)(lambda path=path: os.close(os.open(
        "/proc/self/fd/%d" % os.open(path, os.O_PATH), os.O_WRONLY)))
    probe("change the mode of " + path)(lambda path=path: os.chmod(path, 0o777))
    probe("change the time of " + path)(lambda path=path: os.utime(path))
    probe("name again " + path)(lambda path=path: os.link(path, ARGS.get("beside", "/tmp") + "/again-%d" % os.getpid()))
for path in ARGS["connect"]:
    probe("connect to " + path)(lambda path=path: connect(path))
for folder in ARGS["create"]:
    probe("create in %s/" % folder)(lambda folder=folder: os.close(os.open(
        folder + "/redroom-new", os.O_WRONLY | os.O_CREAT)))
    probe("make a folder in %s/" % folder)(lambda folder=folder: os.mkdir(folder + "/redroom-folder"))
    probe("move %s/" % folder)(lambda folder=folder: (os.rename(folder + "/", folder + "-moved"),
                                                       os.rename(folder + "-moved", folder)))
if ARGS["setuid"]:
    probe("setuid program")(setuid_program)
    probe("marked copy")(marked_copy)
    devices = {"mem": (1, 1), "kmsg": (1, 11), "a disk": (8, 0), "a loop device": (7, 0), "fuse": (10, 229)}
    for name, number in devices.items():
        probe("mknod " + name)(lambda number=number: os.mknod(
            scratch().decode() + "/node", stat.S_IFCHR | 0o666, os.makedev(*number)))
main()
