//! System calls that lead out, or into the kernel: mounts, namespaces, keys, programs for the kernel, other machine kinds.

use redroom::prelude::*;
use serde_json::json;

use crate::{Control, Probes, on_docker, refused};

#[redroom::attack]
async fn nothing_mounts_or_moves_a_file_system(run: Run) -> redroom::Result<()> {
    refused(run, Probes::new(include_str!("probes/mounts.py"), json!({})), &[], Control::Apart).await
}

#[redroom::attack]
async fn nothing_makes_or_enters_a_namespace(run: Run) -> redroom::Result<()> {
    refused(run, Probes::new(include_str!("probes/namespaces.py"), json!({})), &[], Control::Apart).await
}

#[redroom::attack]
async fn nothing_reaches_what_the_kernel_has_for_its_own_people(run: Run) -> redroom::Result<()> {
    // Docker's profile holds for 32-bit programs too, and lets them run.
    let may: &[&str] = if on_docker() { &["i386 getpid"] } else { &[] };
    refused(run, Probes::new(include_str!("probes/kernel.py"), json!({})), may, Control::Apart).await
}
