//! What is put into a sandbox, and what it is like in there.

use libtest_mimic::Failed;
use redroom_harness::backend::{Backend, Owner, PlacedEntry, Program};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Body;
use crate::fixture::{Fixture, MIB, ensure, file, said, same};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("the_link_carries_bytes_both_ways_and_last_words_are_kept", link),
    ("placed_files_and_their_folders_belong_to_whom_they_should", owners),
    ("the_image_offers_the_agent_nothing_else_to_write_to", writable),
    ("git_works_everywhere_without_a_complaint", git),
    ("there_is_no_way_out_and_no_way_to_make_one", no_way_out),
    ("a_file_of_the_base_can_be_read_and_replaced", base_file),
    ("a_program_is_laid_over_the_base", program),
    ("a_build_that_fails_says_why", failed_build),
    ("limits_are_in_force", limits),
];

fn writable(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let script = "find / -xdev -writable ! -type l 2>/dev/null | sort | tr '\n' ' '";
        let places = "/home/agent /run/lock /tmp /var/tmp /workspace ";
        same(said(&*sandbox, script).await?.as_str(), places, "what the agent can write to")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn git(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let root = PlacedEntry { owner: Owner::Root, ..file("/workspace/of-root", 0o644, "x") };
        let sandbox = place.sandbox(vec![root, file("/workspace/a", 0o644, "a")]).await?;
        for home in ["/home/agent", "/tmp"] {
            let script = format!(
                "export HOME={home}; (git init -q . && git add a && git commit -qm one && git status && git log -1 && echo b > a && \
                 git stash && git commit --allow-empty -qm x) 2>&1 | grep -iE 'fatal|dubious|tell me who' ; rm -rf .git"
            );
            same(said(&*sandbox, &script).await?.as_str(), "", home)?;
        }
        sandbox.remove().await?;
        Ok(())
    })
}

fn no_way_out(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let script = "ip -o link | grep -vc ' lo:'; ip route show | wc -l; hostname; grep -c ^nameserver /etc/resolv.conf; \
             grep -c '^nameserver 192.0.2.10$' /etc/resolv.conf; grep -c '^search' /etc/resolv.conf; \
             getent hosts devbox | tr -s ' '; \
             for port in 53 80 443; do python3 -c \"import socket; socket.socket().bind(('', $port))\" 2>/dev/null && echo bound; done; \
             python3 -c \"import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM, s.IPPROTO_ICMP)\" 2>/dev/null && echo pinged; unshare -U true 2>/dev/null && echo unshared; true";
        let seen = said(&*sandbox, script).await?;
        same(seen.as_str(), "0\n0\ndevbox\n1\n1\n0\n192.0.2.10 devbox\n", "the network")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn base_file(fixture: &Fixture) -> Result<(), Failed> {
    const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
    fixture.in_slot(|place| async move {
        for _ in 0..2 {
            let bundle = fixture.docker.base_file(&fixture.base, BUNDLE).await?.unwrap_or_default();
            same(bundle.starts_with(b"-----BEGIN CERTIFICATE-----"), true, "the bundle")?;
            same(fixture.docker.base_file(&fixture.base, "/nowhere").await?, None, "an absent file")?;
        }
        let own = PlacedEntry { owner: Owner::Root, ..file(BUNDLE, 0o644, "replaced") };
        let sandbox = place.sandbox(vec![own]).await?;
        same(
            said(&*sandbox, &format!("cat {BUNDLE}; echo x 2>/dev/null >> {BUNDLE} || true")).await?.as_str(),
            "replaced",
            "in the sandbox",
        )?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn program(fixture: &Fixture) -> Result<(), Failed> {
    fixture.runtime.block_on(async {
        let source = std::env::temp_dir().join(format!("redroom-trial-{}", uuid::Uuid::new_v4().simple()));
        std::fs::write(&source, format!("#!/bin/sh\necho program {}\n", source.display()))?;
        let program = Program::new("trial", "1.0").file(&source, "/opt/trial/bin/program");
        let (first, second) =
            tokio::join!(fixture.docker.prepare(&program, &|_| {}), fixture.docker.prepare(&program, &|_| {}));
        std::fs::remove_file(&source)?;
        let base = first?;
        same(&second?, &base, "the image of the same program")?;
        let read = fixture.docker.base_file(&base, "/opt/trial/bin/program").await;
        let engine = bollard::Docker::connect_with_defaults()?;
        engine.remove_image(&base.to_string(), None::<bollard::query_parameters::RemoveImageOptions>, None).await?;
        same(read?.is_some_and(|content| content.starts_with(b"#!/bin/sh\necho program")), true, "the program")?;
        let gone = fixture.docker.base_file(&base, "/etc/hostname").await.err();
        same(gone.is_some(), true, "an image that is gone")
    })
}

fn failed_build(fixture: &Fixture) -> Result<(), Failed> {
    let target = format!("/opt/{}", "too-long-for-a-name".repeat(20));
    let program = Program::new("trial", "1.0").file("/etc/hostname", target);
    let error = fixture.runtime.block_on(fixture.docker.prepare(&program, &|_| {})).err();
    let error = error.ok_or("it did not fail")?;
    same(error.code(), "image_build_failed", "the code")?;
    ensure(error.detail().contains("the Docker engine says") && error.detail().contains("too-long-for-a-name"), || {
        error.to_string()
    })
}

fn limits(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place
            .limited(Vec::new(), |limits| {
                limits.file_size = MIB;
                limits.open_files = 100;
                limits.pids = 50;
            })
            .await?;
        let script = "ulimit -n; ulimit -c; head -c 3000000 /dev/zero > big 2>/dev/null; stat -c %s big; \
             for i in $(seq 100); do sleep 5 & done 2>&1 | grep -c -m1 'Resource temporarily unavailable'; true";
        same(said(&*sandbox, script).await?.as_str(), "100\n0\n1048576\n1\n", "limits")?;
        sandbox.remove().await?;
        Ok(())
    })
}

fn link(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sent: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let (mut reader, mut writer) = tokio::io::split(place.link);
        let mut received = vec![0; sent.len()];
        let (written, read) = tokio::join!(writer.write_all(&sent), reader.read_exact(&mut received));
        written?;
        read?;
        same(received == sent, true, "what came back is what was sent")?;
        drop((reader, writer));
        same(place.slot.last_words().trim(), "the echo is there", "last words")?;
        place.slot.close().await?;
        Ok(())
    })
}

fn owners(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let settings = PlacedEntry { owner: Owner::Root, ..file("/etc/agent/settings.json", 0o644, "{}") };
        let sandbox = place
            .sandbox(vec![
                file("/workspace/a/b/c.txt", 0o644, "c"),
                file("/workspace/bin/run", 0o755, "#!/bin/sh\necho ran\n"),
                file("/workspace/ro", 0o444, "ro"),
                file("/home/agent/.config/tool/rc", 0o600, "rc"),
                settings,
            ])
            .await?;
        let listed = said(
            &*sandbox,
            "stat -c '%n %u %g %a' /workspace /workspace/a /workspace/a/b /workspace/a/b/c.txt /workspace/bin/run /workspace/ro \
             /home/agent /home/agent/.config /home/agent/.config/tool /home/agent/.config/tool/rc /etc/agent \
             /etc/agent/settings.json /etc /tmp",
        )
        .await?;
        let expected = "/workspace 1000 1000 755\n/workspace/a 1000 1000 755\n/workspace/a/b 1000 1000 755\n\
             /workspace/a/b/c.txt 1000 1000 644\n/workspace/bin/run 1000 1000 755\n/workspace/ro 1000 1000 444\n\
             /home/agent 1000 1000 755\n/home/agent/.config 1000 1000 755\n/home/agent/.config/tool 1000 1000 755\n\
             /home/agent/.config/tool/rc 1000 1000 600\n/etc/agent 0 0 755\n/etc/agent/settings.json 0 0 644\n\
             /etc 0 0 755\n/tmp 0 0 1777\n";
        same(listed.as_str(), expected, "owners and modes")?;
        let worked = said(&*sandbox, "echo x >> a/b/c.txt && mkdir a/b/d && mv a e && rm -r e && bin/run && echo $HOME $GREETING; id -u").await?;
        same(worked.as_str(), "ran\n/home/agent a b=c\n1000\n", "what the agent can do")?;
        sandbox.remove().await?;
        Ok(())
    })
}
