//! Runs a target again, the same way every time: every input of its corpus, then what a few changes make of them.
//!
//! No substitute for `tests/fuzz/run`, which is led by coverage: it keeps what was found once from coming back, and every
//! target from rotting.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use super::draw::Dice;

/// How many changed inputs a target is run with.
const CHANGED: usize = 600;
/// How long an input may grow.
const LONGEST: usize = 16 * 1024;

/// What inputs of most kinds are made of, to be put anywhere.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"]",
    b":",
    b",",
    b"null",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x80",
    b"\xc3",
    b"../",
    b"/",
    b"%2e",
    b"#",
    b"1e999",
    b"-1",
    b"18446744073709551616",
];

pub(crate) fn again(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus").join(name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!corpus.is_empty(), "{} has no inputs", folder.display());
    for (file, input) in files.iter().zip(&corpus) {
        held(target, input, &file.display().to_string());
    }
    let mut dice = Dice(name.bytes().fold(0, |seed, byte| seed * 31 + u64::from(byte)));
    for number in 0..CHANGED {
        let mut input = corpus[dice.below(corpus.len())].clone();
        for _ in 0..=dice.below(4) {
            change(&mut input, &corpus, &mut dice);
        }
        held(target, &input, &format!("changed input {number}"));
    }
}

/// Runs the target, and says with what if it fails.
fn held(target: fn(&[u8]), input: &[u8], which: &str) {
    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("{which}, {} bytes: b\"{}\"", input.len(), input.escape_ascii());
        panic::resume_unwind(panic);
    }
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let end = (at + dice.below(32)).min(input.len());
    match dice.below(7) {
        0 if at < input.len() => input[at] ^= 1 << dice.below(8),
        1 if at < input.len() => input[at] = dice.next() as u8,
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].repeat(1 + dice.below(40));
            input.splice(at..at, again);
        }
        4 => {
            let other = &corpus[dice.below(corpus.len())];
            let from = dice.below(other.len() + 1);
            input.splice(at..end, other[from..].iter().copied());
        }
        5 => drop(input.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
        _ => {
            let noise: Vec<u8> = (0..dice.below(9)).map(|_| dice.next() as u8).collect();
            input.splice(at..end, noise);
        }
    }
    input.truncate(LONGEST);
}
