//! What one run may use.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::backend::SandboxLimits;
use crate::error::{Error, Result};

/// What one run may use. What is not set keeps the suite's value, or the default.
///
/// | limit | default | unit |
/// | --- | --- | --- |
/// | `cpus` | 2 | processors, may be a fraction |
/// | `memory` | `"2g"` | bytes with `k`, `m` or `g` (powers of 1024), swap included |
/// | `pids` | 1024 | processes and threads |
/// | `file_size` | `"2g"` | the largest file |
/// | `open_files` | 16384 | of one process |
/// | `turn_timeout` | 600 s | one turn |
/// | `turn_output` | 64 MB | what one turn may print |
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    cpus: Option<f64>,
    memory: Option<String>,
    pids: Option<u32>,
    file_size: Option<String>,
    open_files: Option<u64>,
    turn_timeout: Option<Duration>,
}

/// Limits with every value known and in range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckedLimits {
    pub(crate) sandbox: SandboxLimits,
    pub(crate) turn_timeout: Duration,
    pub(crate) turn_output: u64,
}

pub(crate) const CPUS: RangeInclusive<f64> = 0.01..=1024.0;
pub(crate) const PIDS: RangeInclusive<u64> = 8..=1_000_000;
pub(crate) const OPEN_FILES: RangeInclusive<u64> = 64..=1_048_576;
/// The longest turn, in seconds, and the shortest that a file can ask for.
pub(crate) const TURN_SECONDS: RangeInclusive<u64> = 1..=24 * 3600;

/// The most that a turn or a command may print, in bytes.
pub(crate) const TURN_OUTPUT: u64 = 64_000_000;

impl Limits {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Processors; may be a fraction.
    #[must_use]
    pub fn cpus(mut self, cpus: impl Into<f64>) -> Self {
        self.cpus = Some(cpus.into());
        self
    }

    /// Memory, swap included: `"512m"`, `"2g"`, or bytes.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<String>) -> Self {
        self.memory = Some(memory.into());
        self
    }

    /// Processes and threads.
    #[must_use]
    pub fn pids(mut self, pids: u32) -> Self {
        self.pids = Some(pids);
        self
    }

    /// The largest file: `"100m"`, or bytes.
    #[must_use]
    pub fn file_size(mut self, size: impl Into<String>) -> Self {
        self.file_size = Some(size.into());
        self
    }

    /// Open files of one process.
    #[must_use]
    pub fn open_files(mut self, files: u64) -> Self {
        self.open_files = Some(files);
        self
    }

    /// How long one turn may take.
    #[must_use]
    pub fn turn_timeout(mut self, timeout: Duration) -> Self {
        self.turn_timeout = Some(timeout);
        self
    }

    /// These limits, and where they say nothing, those of `weaker`.
    pub(crate) fn over(self, weaker: &Limits) -> Limits {
        Limits {
            cpus: self.cpus.or(weaker.cpus),
            memory: self.memory.or_else(|| weaker.memory.clone()),
            pids: self.pids.or(weaker.pids),
            file_size: self.file_size.or_else(|| weaker.file_size.clone()),
            open_files: self.open_files.or(weaker.open_files),
            turn_timeout: self.turn_timeout.or(weaker.turn_timeout),
        }
    }

    pub(crate) fn check(&self) -> Result<CheckedLimits> {
        let wrong = |name: &str, why: &str| Error::redroom("invalid_limits", format!("limits.{name}: {why}"));
        let cpus = self.cpus.unwrap_or(2.0);
        if !CPUS.contains(&cpus) {
            return Err(wrong("cpus", "give a number from 0.01 to 1024"));
        }
        let memory = self.memory.as_deref().unwrap_or("2g");
        let memory = match bytes(memory) {
            Some(bytes) if bytes >= 32 << 20 => bytes,
            _ => {
                return Err(wrong(
                    "memory",
                    "give at least \"32m\", such as \"2g\" or \"512m\": bytes, or with k, m, g, t",
                ));
            }
        };
        let pids = self.pids.unwrap_or(1024);
        if !PIDS.contains(&u64::from(pids)) {
            return Err(wrong("pids", "give a number from 8 to 1000000"));
        }
        let file_size = self.file_size.as_deref().unwrap_or("2g");
        let file_size = match bytes(file_size) {
            Some(bytes) if bytes >= 1 << 20 => bytes,
            _ => return Err(wrong("file_size", "give at least \"1m\", such as \"2g\": bytes, or with k, m, g, t")),
        };
        let open_files = self.open_files.unwrap_or(16_384);
        if !OPEN_FILES.contains(&open_files) {
            return Err(wrong("open_files", "give a number from 64 to 1048576"));
        }
        let turn_timeout = self.turn_timeout.unwrap_or(Duration::from_secs(600));
        if turn_timeout.is_zero() || turn_timeout > Duration::from_secs(*TURN_SECONDS.end()) {
            return Err(wrong("turn_timeout", "give more than nothing and at most a day"));
        }
        Ok(CheckedLimits {
            sandbox: SandboxLimits { cpus, memory, pids, file_size, open_files },
            turn_timeout,
            turn_output: TURN_OUTPUT,
        })
    }
}

/// Bytes out of `2g`, `512m`, `64k` or a plain number.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_suffix('b').unwrap_or(&text);
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k') => (&text[..at], 10),
        (at, 'm') => (&text[..at], 20),
        (at, 'g') => (&text[..at], 30),
        (at, 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<u64>().ok()?.checked_mul(1 << shift))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, value) in
            [("2g", Some(2 << 30)), ("512M", Some(512 << 20)), ("64kb", Some(64 << 10)), ("1000", Some(1000))]
        {
            assert_eq!(bytes(text), value, "{text}");
        }
        for text in ["", "g", "-1g", "+1g", "1.5g", "99999999999t", "2 g x"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_set_means_the_documented_defaults() {
        let limits = Limits::new().check().unwrap();
        assert_eq!(limits.sandbox.memory, 2 << 30);
        assert_eq!(limits.sandbox.pids, 1024);
        assert_eq!(limits.turn_timeout, Duration::from_secs(600));
    }

    #[test]
    fn the_stronger_setting_wins_value_by_value() {
        let limits = Limits::new().memory("1g").over(&Limits::new().memory("4g").pids(99));
        assert_eq!(limits, Limits::new().memory("1g").pids(99));
    }

    #[test]
    fn a_limit_out_of_range_names_itself() {
        for (limits, name) in [
            (Limits::new().cpus(0.0), "cpus"),
            (Limits::new().cpus(f64::NAN), "cpus"),
            (Limits::new().memory("1m"), "memory"),
            (Limits::new().memory("lots"), "memory"),
            (Limits::new().pids(1), "pids"),
            (Limits::new().file_size("0"), "file_size"),
            (Limits::new().open_files(1), "open_files"),
            (Limits::new().turn_timeout(Duration::ZERO), "turn_timeout"),
        ] {
            let error = limits.check().unwrap_err();
            assert_eq!(error.code(), "invalid_limits");
            assert!(error.detail().contains(name), "{error}");
        }
    }
}
