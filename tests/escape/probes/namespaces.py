def forked(name, *args):
    if call(name, *args) == 0:
        os._exit(0)


def by_clone3(flag):
    args = ctypes.create_string_buffer(struct.pack("11Q", flag, *[0] * 3, signal.SIGCHLD, *[0] * 6))
    forked("clone3", args, 88)


for name, flag in NAMESPACES.items():
    # Whoever may make one of another kind has one of users before.
    probe("unshare " + name)(lambda flag=flag: call("unshare", flag))
    probe("unshare user, " + name)(lambda flag=flag: call("unshare", flag | NAMESPACES["user"]))
    probe("setns " + name)(lambda name=name, flag=flag: reached("setns", os.open("/proc/self/ns/" + {
        "mount": "mnt", "network": "net"}.get(name, name), os.O_RDONLY), flag))
    probe("clone3 " + name)(lambda flag=flag: by_clone3(flag | NAMESPACES["user"]))
    if name != "time":
        probe("clone " + name)(lambda flag=flag: forked(
            "clone", flag | NAMESPACES["user"] | signal.SIGCHLD, 0, 0, 0, 0))

probe("sethostname")(lambda: call("sethostname", b"escaped", 7))
probe("setdomainname")(lambda: call("setdomainname", b"escaped", 7))
main()
