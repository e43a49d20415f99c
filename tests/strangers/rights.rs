//! capsh, asked for every right there is.

use std::process::Command;
use std::sync::Arc;

use libtest_mimic::Trial;
use redroom::{Redroom, Result, RunOptions};

use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("rights::capsh_finds_no_right_in_any_set_and_gains_none", &["capsh"], none)]
}

/// Each right that the kernel knows, in each set; how many of them it asked for at the end.
const EACH: &str = r#"last=$(cat /proc/sys/kernel/cap_last_cap)
for n in $(seq 0 $last); do
  for set in p i b a; do capsh --has-$set=$n >/dev/null 2>&1 && echo "has $set $n"; done
done
echo "asked for $((last + 1))""#;

/// Ways to more rights, by what libcap can ask of the kernel; how each ended.
const MORE: &str = r#"for way in --user=root --uid=0 --gid=0 --groups=0 --keep=1 '--inh=cap_net_admin' '--addamb=cap_net_admin' '--caps=cap_net_raw+ep' \
  --secbits=1 --chroot=/tmp --mode=NOPRIV '--iab=^cap_net_raw'; do
  capsh $way -- -c 'grep -v "Cap[A-Z][a-z][a-z]:.0*$" /proc/self/status | grep Cap; true' 2>/dev/null && echo "$way"
done; true"#;

async fn none(redroom: Arc<Redroom>) -> Result<()> {
    let run = redroom.start_run(RunOptions::new().name("capsh")).await?;
    let printed = run.send("capsh --print && capsh --has-no-new-privs").await?;
    assert_eq!((printed.exit_code, printed.stderr.as_str()), (Some(0), ""), "{}", printed.final_text);
    for line in ["Current: =", "Bounding set =", "Ambient set =", "Securebits: 00/0x0/1'b0 (no-new-privs=1)"] {
        assert!(printed.final_text.lines().any(|printed| printed == line), "{line}: {}", printed.final_text);
    }
    let each = run.send(EACH).await?;
    let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap();
    let count = last.trim().parse::<u32>().unwrap() + 1;
    assert_eq!(each.final_text, format!("asked for {count}\n"), "{}", each.stderr);
    // What keeps nothing takes nothing: whoever has no capability may say that it will keep none.
    let more = run.send(MORE).await?;
    assert_eq!(more.final_text.lines().filter(|line| line.starts_with("--")).collect::<Vec<_>>(), ["--keep=1"]);
    assert!(!more.final_text.contains("Cap"), "{}", more.final_text);
    run.finish().await?;
    // The control: here are rights, and capsh finds them.
    let here = Command::new("bash").args(["-c", &format!("PATH=$PATH:/usr/sbin:/sbin\n{EACH}")]).output().unwrap();
    let here = String::from_utf8_lossy(&here.stdout).into_owned();
    assert!(here.contains("has b ") && here.ends_with(&each.final_text), "{here}");
    Ok(())
}
