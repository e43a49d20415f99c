BIND, REMOUNT, DETACH = 4096, 32, 2
probe("mount tmpfs")(lambda: call("mount", b"none", scratch(), b"tmpfs", 0, 0))
probe("mount proc")(lambda: call("mount", b"none", scratch(), b"proc", 0, 0))
probe("mount bind")(lambda: call("mount", b"/usr", scratch(), 0, BIND, 0))
probe("mount remount")(lambda: reached("mount", 0, b"/", 0, REMOUNT | BIND, 0))
probe("umount2")(lambda: reached("umount2", b"/proc", DETACH))
probe("pivot_root")(lambda: reached("pivot_root", b".", b"."))
probe("chroot")(lambda: call("chroot", scratch()))
probe("open_tree")(lambda: call("open_tree", -100, b"/", 1))
probe("move_mount")(lambda: reached("move_mount", -1, b"", -1, b"", 0))
probe("fsopen")(lambda: call("fsopen", b"tmpfs", 0))
probe("fsconfig")(lambda: reached("fsconfig", -1, 6, 0, 0, 0))
probe("fsmount")(lambda: reached("fsmount", -1, 0, 0))
probe("fspick")(lambda: reached("fspick", -100, b"/nowhere", 0))
probe("mount_setattr")(lambda: reached("mount_setattr", -100, b"/", 0, ctypes.create_string_buffer(32), 32))


@probe("chroot with a folder held open")
def breakout():
    held = os.open("/", os.O_RDONLY)
    call("chroot", scratch())
    os.fchdir(held)
    os.listdir(".")


@probe("open_by_handle_at")
def by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, b"/usr", handle, ctypes.byref(mount), 0)
    call("open_by_handle_at", os.open("/", os.O_RDONLY), handle, 0)


main()
