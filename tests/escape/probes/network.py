def told(kind, address, family=socket.AF_INET):
    """Whether it is the host's own listener that answers."""
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        s.connect(address)
        if kind == socket.SOCK_DGRAM:
            s.send(b"who is there?")
        return s.recv(100) == b"the host"


def request(kind, body):
    """Asks the kernel to change the network; raises what it answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(struct.pack("IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
        number = -struct.unpack_from("i", s.recv(4096), 16)[0]
        if number:
            raise OSError(number, os.strerror(number))


def replace_address():
    import fcntl
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        name = struct.pack("16sH2s4s8x", b"lo", socket.AF_INET, b"", bytes([10, 1, 2, 3]))
        fcntl.ioctl(s, 0x8916, name)


def bind(port, address, kind, options):
    with socket.socket(socket.AF_INET, kind) as s:
        for option in options:
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        s.bind((address, port))


def setting(level, option):
    with socket.socket() as s:
        s.setsockopt(level, option, 1)


ADDRESS = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, 1) + struct.pack("HH4s", 8, 2, bytes([10, 1, 2, 4]))
ROUTE = struct.pack("BBBBBBBBI", socket.AF_INET, 8, 0, 0, 255, 4, 254, 2, 0)
ROUTE += struct.pack("HH4s", 8, 1, bytes([11, 0, 0, 0])) + struct.pack("HHI", 8, 4, 1)
LINK_DOWN = struct.pack("BBHiII", 0, 0, 0, 1, 0, 1)
if "reach" in ARGS:
    tcp, udp, abstract = ARGS["reach"]
    for host in ARGS["hosts"]:
        probe("tcp %s" % host)(lambda host=host: told(socket.SOCK_STREAM, (host, tcp)))
        probe("udp %s" % host)(lambda host=host: told(socket.SOCK_DGRAM, (host, udp)))
    probe("abstract socket")(lambda: told(socket.SOCK_STREAM, "\0" + abstract, socket.AF_UNIX))
else:
    probe("add an address")(lambda: request(20, ADDRESS))
    probe("add a route")(lambda: request(24, ROUTE))
    for name, kind in {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}.items():
        for port in (53, 80, 443, 1023):
            for address in ("0.0.0.0", "127.0.0.1"):
                place = "%s %s:%d" % (name, address, port)
                probe("bind " + place)(lambda a=address, p=port, k=kind: bind(p, a, k, []))
                probe("share " + place)(lambda a=address, p=port, k=kind: bind(p, a, k, [2, 15]))
    probe("raw socket")(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 6))
    probe("raw socket, any protocol")(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
    probe("raw socket, version 6")(lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))
    probe("packet socket")(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    probe("packet datagrams")(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0))
    probe("vsock")(lambda: socket.socket(40, socket.SOCK_STREAM))
    probe("AF_ALG")(lambda: socket.socket(38, socket.SOCK_SEQPACKET))
    probe("AF_KEY")(lambda: socket.socket(15, socket.SOCK_RAW, 2))
    probe("bluetooth")(lambda: socket.socket(31, socket.SOCK_RAW, 1))
    probe("transparent")(lambda: setting(0, 19))
    probe("mark")(lambda: setting(1, 36))
    probe("receive buffer by force")(lambda: setting(1, 33))
    probe("repair")(lambda: setting(6, 19))
    # The last ones: where they work, the others do not any more.
    probe("replace the address")(replace_address)
    probe("take the interface down")(lambda: request(16, LINK_DOWN))
main()
