//! A jail's `/etc`: what of this machine's is let in, and what is its own.

use redroom_sidecar::namespace::OWN;

/// The host name that an agent sees. It says nothing of a test.
pub(in super::super) const HOST_NAME: &str = "devbox";

/// What programs need to find their libraries, their words and their certificates. Nothing that could hold a secret, or that says
/// whose machine this is.
pub(super) const LET_IN: [&str; 42] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/mime.types",
    "/etc/networks",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/ct_log_list.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/profile",
    "/etc/protocols",
    "/etc/redhat-release",
    "/etc/rpc",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/xattr.conf",
];

/// The jail's own files, the agent's user and group among them.
pub(super) fn files(id: u32) -> Vec<(String, String)> {
    let [v4, _] = OWN;
    let files = [
        ("hostname", format!("{HOST_NAME}\n")),
        (
            "hosts",
            format!(
                "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::\tip6-localnet\n\
                 ff00::\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n{v4}\t{HOST_NAME}\n"
            ),
        ),
        ("resolv.conf", format!("nameserver {v4}\noptions ndots:1\n")),
        // Whatever this machine asks beside files and DNS is not in the jail.
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n\
             services: files\nethers: files\nrpc: files\n"
                .to_owned(),
        ),
        (
            "passwd",
            format!(
                "root:x:0:0:root:/root:/bin/bash\nagent:x:{id}:{id}::/home/agent:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        // An agent that commits needs a name, whatever its HOME is; and git must not stop at a tree of somebody else.
        (
            "gitconfig",
            "[user]\n\tname = Dev\n\temail = dev@localhost\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n"
                .to_owned(),
        ),
        ("group", format!("root:x:0:\nagent:x:{id}:\nnogroup:x:65534:\n")),
    ];
    files.map(|(name, content)| (format!("/etc/{name}"), content)).into()
}
