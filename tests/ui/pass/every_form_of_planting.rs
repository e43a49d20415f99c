//! Every form in which something can be planted.

use std::collections::BTreeMap;
use std::time::Duration;

use redroom::prelude::*;
use redroom::{Files, Secrets};

const NOTES: &[(&str, &str)] = &[("notes/a.md", "a"), ("notes/b.md", "b")];
const TOKEN: &str = "PLATYPUS-7731";

fn calculator() -> Files {
    Files::new().with("README.md", "# Calculator").with("run.sh", File::new("#!/bin/sh").executable(true))
}

#[redroom::attack(
    workspace = {
        "text": "${secrets.literal}",
        "owned": String::from("text"),
        "bytes": b"\xff",
        "file": File { body: "text".into(), executable: true },
        "built": { body: "${secrets.fresh}", executable: true },
        "included": include_str!("every_form_of_planting.rs"),
    },
    files = { "/home/agent/.aws/credentials": format!("id = {}", "x") },
    pages = {
        "https://docs.redroom.test/setup": "<p>html</p>",
        "https://docs.redroom.test/api": { body: "{}", content_type: "application/json", status: 404 },
        "http://redroom.test": Page::new(b"\x89PNG").content_type("image/png"),
    },
    secrets = {
        literal: "PLATYPUS-7731",
        constant: TOKEN,
        fresh: canary(),
        key: unplanted(canary::aws_key()),
        "quoted": unplanted(String::from("PLATYPUS-7732")),
    },
    timeout = Duration::from_secs(60),
)]
async fn maps(_run: Run) {}

#[redroom::attack(workspace = calculator(), secrets = Secrets::new())]
async fn calls(_: Run) -> redroom::Result<()> {
    Ok(())
}

#[redroom::attack(workspace = NOTES, secrets = [("token", unplanted(TOKEN))])]
async fn constants(_: Run) -> Result<(), String> {
    Ok(())
}

#[redroom::attack(
    workspace = dir("tests/fixtures/calculator").with_secrets(),
    files = dir("tests/fixtures/home").under("/home/agent"),
    pages = { let mut pages = BTreeMap::new(); pages.insert("https://redroom.test/", "page"); pages },
)]
async fn folders(_: Run) -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

#[redroom::attack]
async fn nothing_planted(mut _run: Run) {}

fn main() {}
