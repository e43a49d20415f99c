//! Secrets in streams: every secret in every encoding, in one pass over chunks.

use serde::{Deserialize, Serialize};

/// The disguise that a secret wore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Encoding {
    /// As it is.
    Plain,
    /// In other letter case (DNS lowers names).
    CaseInsensitive,
    /// Percent-encoded, in part or whole.
    Url,
    /// Hexadecimal digits of either case.
    Hex,
    /// Base64 at any byte offset, either alphabet, wrapped or not.
    Base64,
}
