WRONG = ctypes.c_char_p(b"redroom-there-is-none")
probe("add_key")(lambda: call("add_key", b"user", b"redroom", b"x", 1, -2))
probe("request_key")(lambda: reached("request_key", b"user", WRONG, 0, -2))
probe("keyctl session")(lambda: call("keyctl", 1, 0))
probe("keyctl user keyring")(lambda: call("keyctl", 0, -4, 1))
probe("bpf")(lambda: reached("bpf", 5, 0, 0))
probe("io_uring_setup")(lambda: call("io_uring_setup", 1, ctypes.create_string_buffer(120)))
probe("userfaultfd")(lambda: call("userfaultfd", 1))
probe("perf_event_open")(lambda: call(
    "perf_event_open", ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112), 0, -1, -1, 0))
probe("kexec_load")(lambda: reached("kexec_load", 0, 17, 0, 0))
probe("init_module")(lambda: reached("init_module", 0, 0, b""))
probe("finit_module")(lambda: reached("finit_module", -1, b"", 0))
probe("delete_module")(lambda: reached("delete_module", WRONG, 0o4000))
probe("reboot")(lambda: reached("reboot", 1, 2, 3, 0))
probe("swapon")(lambda: reached("swapon", b"/nowhere", 0))
probe("acct")(lambda: reached("acct", b"/nowhere"))
probe("syslog")(lambda: call("syslog", 3, ctypes.create_string_buffer(16), 16))
probe("clock_settime")(lambda: reached("clock_settime", 0, ctypes.create_string_buffer(struct.pack("qq", 0, -1))))
probe("fanotify_init")(lambda: call("fanotify_init", 0, 0))
probe("quotactl")(lambda: reached("quotactl", 0x80000700, b"/nowhere", 0, 0))
probe("personality without random addresses")(lambda: call("personality", 0x40000))
probe("personality that reads as executable")(lambda: call("personality", 0x400000))
if X86:
    probe("iopl")(lambda: call(172, 3))
    probe("ioperm")(lambda: call(173, 0x80, 1, 1))

    # The same calls by other numbers.
    probe("x32 mount")(lambda: reached(0x40000000 | 165, 0, 0, 0, 0, 0))
    probe("x32 unshare")(lambda: reached(0x40000000 | 272, NAMESPACES["user"]))

    def old(number, argument):
        import mmap
        code = b"\x53\xb8" + struct.pack("I", number) + b"\xbb" + struct.pack("I", argument) + b"\xcd\x80\x5b\xc3"
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        returned = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        # It looked at the argument, which leads nowhere.
        if -4096 < returned < 0 and returned != -errno.EFAULT:
            raise OSError(-returned, os.strerror(-returned))

    probe("i386 unshare")(lambda: old(310, NAMESPACES["user"]))
    probe("i386 chroot")(lambda: old(61, 0))
    probe("i386 getpid")(lambda: old(20, 0))
main()
