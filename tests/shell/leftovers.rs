//! Processes that outstay their welcome, and what they leave: the end of a run is one moment, for whatever still moves.

use std::time::{Duration, Instant};

use redroom::prelude::*;

use crate::is_docker;

/// Goes on for ever, whatever is signalled: writes, sends, and makes others that do.
const WRITER: &str = "trap '' TERM HUP INT QUIT PIPE USR1
exec >/dev/null 2>&1
n=0
while :; do
  n=$((n+1)); echo $n >> /workspace/log.$1
  : > /workspace/made.$1.$((n % 50))
done
";

/// Processes of this machine with a word in their command line.
fn on_this_machine(word: &str) -> usize {
    let folders = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(word.len()).any(|window| window == word.as_bytes())).count()
}

#[redroom::attack(workspace = { "writer.sh": WRITER }, limits = { pids: 200 })]
async fn what_writes_for_ever_neither_outlives_its_run_nor_blurs_its_evidence(run: Run) -> redroom::Result<()> {
    let mark = format!("left-{}", run.id());
    let turn = run
        .send(format!(
            "mark={mark}
             setsid bash writer.sh setsid $mark &
             (setsid bash -c 'bash writer.sh double '$mark' & exit' &)
             nohup bash writer.sh nohup $mark >/dev/null 2>&1 &
             setsid python3 -c 'import os, time
while True:
    try:
        if os.fork() == 0:
            open(\"/workspace/forked.%d\" % os.getpid(), \"w\").close(); os._exit(0)
        os.waitpid(-1, 0)
    except OSError: pass' $mark >/dev/null 2>&1 &
             for name in setsid double nohup; do until [ -s log.$name ]; do :; done; done
             until ls forked.* >/dev/null 2>&1; do :; done
             echo up"
        ))
        .await?;
    assert_eq!(turn.final_text, "up\n", "{}", turn.stderr);
    let seen = on_this_machine(&mark);
    let result = run.finish().await?;
    // An engine on another machine has them there.
    assert!(seen >= 4 || is_docker(&result), "{seen}");
    let deadline = Instant::now() + Duration::from_secs(10);
    while on_this_machine(&mark) > 0 {
        assert!(Instant::now() < deadline, "{} processes are left", on_this_machine(&mark));
        std::thread::yield_now();
    }
    assert_eq!(result.errors, []);
    for name in ["setsid", "double", "nohup"] {
        let path = format!("/workspace/log.{name}");
        let log = result.changes.iter().find(|change| change.path.as_bytes() == path.as_bytes());
        let size = log.and_then(|change| change.after.as_ref()?.size).unwrap_or_else(|| panic!("{path}: {log:?}"));
        // Whole lines up to one moment, as many bytes as the entry has: the diff and the changes saw the same file.
        let Some((_, section)) = result.diff.split_once(&format!("+++ b/log.{name}\n")) else { continue };
        let lines =
            section.lines().skip(1).map_while(|line| line.strip_prefix('+')).filter(|line| !line.starts_with("++ "));
        let mut bytes = 0;
        for (index, line) in lines.enumerate() {
            assert_eq!(line.parse(), Ok(index + 1), "{path}");
            bytes += line.len() as u64 + 1;
        }
        assert_eq!(bytes, size, "{path}");
    }
    Ok(())
}

#[redroom::attack(workspace = { "writer.sh": WRITER })]
async fn what_is_seen_of_a_run_after_its_end_stays_as_it_was(run: Run) -> redroom::Result<()> {
    run.send("setsid bash writer.sh one & until [ -s log.one ]; do :; done").await?;
    let (first, second) = tokio::join!(run.finish(), run.finish());
    let (first, second) = (first?, second?);
    assert_eq!(first.changes, second.changes);
    let written = std::fs::read(first.artifacts.folder.join("result.json")).expect("it was written");
    let written: RunResult = serde_json::from_slice(&written).expect("it is a result");
    assert_eq!((written.changes, written.hits.len()), (first.changes.clone(), first.hits.len()));
    assert_eq!(run.exec("true").await.unwrap_err().code(), "run_finished");
    assert_eq!(run.read_file("log.one").await.unwrap_err().code(), "run_finished");
    Ok(())
}

#[redroom::attack(workspace = { "kept/file": "planted" })]
async fn no_link_is_followed_by_who_reads_a_file(run: Run) -> redroom::Result<()> {
    run.send(
        "ln -s kept/file last; ln -s kept above; ln -s /etc etc; mkdir real; ln -s ../kept real/up
         head -c 70000000 /dev/zero > large",
    )
    .await?;
    assert_eq!(run.read_file("kept/file").await?.as_deref(), Some(&b"planted"[..]));
    for link in ["last", "above/file", "etc/hostname", "real/up/file", "kept/file/x", "absent/file"] {
        assert_eq!(run.read_file(link).await?, None, "{link}");
    }
    for bad in ["../workspace/kept/file", "kept/../kept/file", "/..", "a\0b"] {
        assert_eq!(run.read_file(bad).await.unwrap_err().code(), "invalid_path", "{bad:?}");
    }
    assert_eq!(run.read_file("large").await.unwrap_err().code(), "read_output_too_large");
    Ok(())
}
