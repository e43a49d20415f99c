//! The changes of a workspace as unified text, in the manner of git.
//!
//! Every name and content is the agent's choice: names that could pass for lines of the text are quoted, as git does it.
//! Control characters inside of lines stay; who prints them has to escape them.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag};

use super::tree::{EntryKind, Facts};
use crate::backend::WORKSPACE;

/// The most that the text may weigh, in bytes.
const LIMIT: usize = 4 << 20;
/// Past so many lines that differ, one side is shown as replaced by the other: comparing is quadratic.
const COMPARED_LINES: usize = 20_000;
/// How long all comparing may take; after that it gets coarser.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines around a change.
const CONTEXT: usize = 3;
/// Where git looks for a NUL.
const BINARY_PREFIX: usize = 8000;

/// One side of a change.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) facts: &'a Facts,
    /// `None`: there is none, or it was not kept.
    pub(super) content: Option<&'a [u8]>,
}

/// A text that grows change by change, up to a limit.
pub(super) struct Diff {
    text: String,
    deadline: Instant,
    omitted: u64,
}

impl Diff {
    pub(super) fn new() -> Self {
        Diff { text: String::new(), deadline: Instant::now() + PATIENCE, omitted: 0 }
    }

    /// Adds a change of the entry at `path`.
    pub(super) fn push(&mut self, path: &[u8], before: Option<Side<'_>>, after: Option<Side<'_>>) {
        let shown = |side: &Option<Side<'_>>| side.is_some_and(|side| side.facts.kind != EntryKind::Folder);
        let is_kept = before.is_some() && after.is_some();
        if !shown(&before) && !shown(&after) && !is_kept {
            return;
        }
        if self.text.len() >= LIMIT {
            self.omitted += 1;
            return;
        }
        // git shows what became of another type as one entry deleted and another added.
        if let (Some(old), Some(new)) = (before, after)
            && old.facts.kind != new.facts.kind
        {
            self.push(path, before, None);
            self.push(path, None, after);
            return;
        }
        let name = path.strip_prefix(WORKSPACE.as_bytes()).unwrap_or(path);
        let (old_name, new_name) = (quoted("a", name), quoted("b", name));
        self.line(format_args!("diff --git {old_name} {new_name}"));
        match (before, after) {
            (None, Some(new)) => self.line(format_args!("new file mode {}", mode(new.facts))),
            (Some(old), None) => self.line(format_args!("deleted file mode {}", mode(old.facts))),
            (Some(old), Some(new)) if old.facts.access_differs(new.facts) => {
                self.line(format_args!("old mode {}{}", mode(old.facts), owner(old.facts, new.facts)));
                self.line(format_args!("new mode {}{}", mode(new.facts), owner(new.facts, old.facts)));
            }
            _ => {}
        }
        let old_name = before.map_or("/dev/null", |_| &old_name);
        let new_name = after.map_or("/dev/null", |_| &new_name);
        self.contents(old_name, before, new_name, after);
    }

    fn contents(&mut self, old_name: &str, before: Option<Side<'_>>, new_name: &str, after: Option<Side<'_>>) {
        if let (Some(old), Some(new)) = (before, after)
            && !old.facts.content_differs(new.facts)
        {
            return;
        }
        if let Some(EntryKind::Special(sort)) = before.or(after).map(|side| &side.facts.kind) {
            self.line(format_args!("Special files {old_name} and {new_name} differ: {sort}"));
            return;
        }
        let (Some(old), Some(new)) = (text_of(before), text_of(after)) else {
            let size = |side: Option<Side<'_>>| side.and_then(|side| side.facts.size).unwrap_or(0);
            let (old, new) = (size(before), size(after));
            self.line(format_args!("Files {old_name} and {new_name} differ: not kept, {old} and {new} bytes"));
            return;
        };
        if is_binary(old) || is_binary(new) {
            self.line(format_args!("Binary files {old_name} and {new_name} differ"));
            return;
        }
        if old == new {
            return;
        }
        self.line(format_args!("--- {old_name}"));
        self.line(format_args!("+++ {new_name}"));
        let (old, new) = (lines(old), lines(new));
        for hunk in similar::group_diff_ops(compare(&old, &new, self.deadline), CONTEXT) {
            self.hunk(&hunk, &old, &new);
            if self.text.len() >= LIMIT {
                return;
            }
        }
    }

    fn hunk(&mut self, ops: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
        let span = |first: Range<usize>, last: Range<usize>| {
            let count = last.end - first.start;
            let start = if count == 0 { first.start } else { first.start + 1 };
            if count == 1 { start.to_string() } else { format!("{start},{count}") }
        };
        let old_span = span(first.old_range(), last.old_range());
        let new_span = span(first.new_range(), last.new_range());
        self.line(format_args!("@@ -{old_span} +{new_span} @@"));
        for op in ops {
            let (tag, old_range, new_range) = op.as_tag_tuple();
            let (minus, plus) = match tag {
                DiffTag::Equal => (" ", None),
                _ => ("-", Some("+")),
            };
            old[old_range].iter().for_each(|line| self.content_line(minus, line));
            if let Some(plus) = plus {
                new[new_range].iter().for_each(|line| self.content_line(plus, line));
            }
        }
    }

    fn content_line(&mut self, sign: &str, line: &[u8]) {
        if self.text.len() >= LIMIT {
            return;
        }
        self.text.push_str(sign);
        self.text.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            self.text.push_str("\n\\ No newline at end of file\n");
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// The text, and a last line if it was cut.
    pub(super) fn finish(mut self) -> String {
        if self.text.len() >= LIMIT {
            let line_end = self.text.as_bytes()[..LIMIT].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            self.text.truncate(line_end);
            let omitted = self.omitted;
            self.line(format_args!("... cut here, at {} MiB; {omitted} more changes are not shown", LIMIT >> 20));
        }
        self.text
    }
}

/// What is compared of a side that may not be there: `None` if it was not kept.
fn text_of(side: Option<Side<'_>>) -> Option<&[u8]> {
    match side {
        None => Some(b""),
        Some(side) if side.facts.kind == EntryKind::Symlink => {
            side.facts.target.as_ref().map(|target| target.as_bytes())
        }
        Some(side) if side.facts.kind == EntryKind::Folder => Some(b""),
        Some(side) => side.content,
    }
}

fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_PREFIX)].contains(&0)
}

fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|&byte| byte == b'\n').collect()
}

fn compare(old: &[&[u8]], new: &[&[u8]], deadline: Instant) -> Vec<DiffOp> {
    let prefix = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_len, new_len) = (old_rest.len() - suffix, new_rest.len() - suffix);
    if old_len + new_len <= COMPARED_LINES {
        return similar::capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline));
    }
    let equal = |old_index, new_index, len| DiffOp::Equal { old_index, new_index, len };
    let replaced = DiffOp::Replace { old_index: prefix, old_len, new_index: prefix, new_len };
    [equal(0, 0, prefix), replaced, equal(prefix + old_len, prefix + new_len, suffix)]
        .into_iter()
        .filter(|op| !op.old_range().is_empty() || !op.new_range().is_empty())
        .collect()
}

/// Type and permissions as git writes them, with all bits.
fn mode(facts: &Facts) -> String {
    let kind = match facts.kind {
        EntryKind::File => "10",
        EntryKind::Folder => "04",
        // A link's own permissions say nothing; git writes none.
        EntryKind::Symlink => return "120000".to_owned(),
        EntryKind::Special(_) => "01",
    };
    match facts.mode {
        Some(mode) => format!("{kind}{mode:04o}"),
        None => format!("{kind}????"),
    }
}

/// Whose it is, where that is not the same on the other side.
fn owner(facts: &Facts, other: &Facts) -> String {
    let differ = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a != b);
    match (facts.uid, facts.gid) {
        (Some(uid), Some(gid)) if differ(facts.uid, other.uid) || differ(facts.gid, other.gid) => {
            format!(" owner {uid}:{gid}")
        }
        _ => String::new(),
    }
}

/// A name behind `a` or `b`; in quotes and with escapes if it could be taken for something else.
fn quoted(side: &str, name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let odd = |char: char| char.is_control() || matches!(char, '"' | '\\' | '\u{2028}' | '\u{2029}');
    if std::str::from_utf8(name).is_ok() && !text.contains(odd) {
        return format!("{side}{text}");
    }
    let mut quoted = format!("\"{side}");
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => quoted.extend(['\\', char]),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                _ if odd(char) => octal(&mut quoted, char.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => quoted.push(char),
            }
        }
        octal(&mut quoted, chunk.invalid());
    }
    quoted.push('"');
    quoted
}

fn octal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\{byte:03o}");
    }
}
