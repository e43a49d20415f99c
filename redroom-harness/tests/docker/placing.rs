//! What is put into a sandbox, and what it is like in there.

use libtest_mimic::Failed;
use redroom_harness::backend::{Owner, PlacedEntry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Body;
use crate::fixture::{Fixture, file, said, same};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("the_link_carries_bytes_both_ways_and_last_words_are_kept", link),
    ("placed_files_and_their_folders_belong_to_whom_they_should", owners),
];

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
