//! The kinds of containers, the way into one inside another, and what stays unsearched.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that other bytes are packed in. Recognised by its content, never by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Container {
    /// A gzip member: `.gz`, `.tar.gz`, a compressed HTTP body.
    Gzip,
    /// A zlib stream: an object of git, alone or in a pack.
    Zlib,
    /// A compressed entry of a ZIP file.
    Zip,
    /// A Zstandard frame.
    Zstd,
    /// A bzip2 stream.
    Bzip2,
    /// Base64 text that holds another container.
    Base64,
    /// Hexadecimal digits that hold another container.
    Hex,
    /// An xz stream.
    Xz,
    /// A 7z file.
    #[serde(rename = "7z")]
    SevenZip,
    /// A RAR file.
    Rar,
    /// An LZ4 frame.
    Lz4,
    /// What `openssl enc` writes.
    Openssl,
    /// An OpenPGP message, with ASCII armour or without.
    Pgp,
    /// An HTTP body in Brotli, as its header says: it has no mark of its own.
    Brotli,
    /// An HTTP body in another coding that cannot be opened, as its header says: `compress`, raw DEFLATE.
    ContentCoding,
}

impl Container {
    fn is_text(self) -> bool {
        matches!(self, Container::Base64 | Container::Hex)
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Container::Gzip => "gzip",
            Container::Zlib => "zlib",
            Container::Zip => "zip",
            Container::Zstd => "zstd",
            Container::Bzip2 => "bzip2",
            Container::Base64 => "base64",
            Container::Hex => "hex",
            Container::Xz => "xz",
            Container::SevenZip => "7z",
            Container::Rar => "rar",
            Container::Lz4 => "lz4",
            Container::Openssl => "openssl enc",
            Container::Pgp => "pgp",
            Container::Brotli => "brotli",
            Container::ContentCoding => "content coding",
        })
    }
}

/// A part of a stream that was not searched, or not to its end: a secret may be in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unsearched {
    /// Where in the stream it began; for one inside another, where the outermost began.
    pub offset: u64,
    /// What it is.
    pub container: Container,
    /// What it lay in, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Container>,
    /// Why it was not searched.
    pub why: Why,
}

impl Unsearched {
    /// A stream that says of itself what it is.
    pub(crate) fn whole(container: Container, why: Why) -> Self {
        Unsearched { offset: 0, container, inside: Vec::new(), why }
    }

    /// Whether the other is the same but for its place.
    pub(crate) fn is_like(&self, other: &Unsearched) -> bool {
        (self.container, self.why, &self.inside) == (other.container, other.why, &other.inside)
    }
}

/// `zip is encrypted`, `gzip inside zip lies too deep`.
impl fmt::Display for Unsearched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsearched { container, inside, why, .. } = self;
        write!(f, "{container}{} {why}", Inside(inside))
    }
}

/// Why something was not searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It is encrypted.
    Encrypted,
    /// It is of a kind, or compressed by a method, that cannot be opened.
    Unsupported,
    /// It lies in three others already.
    TooDeep,
    /// It inflates to more than is searched; searched as far as that.
    TooLarge,
    /// Too much was open at once.
    TooMany,
    /// The stream ended before it did; searched as far as it goes.
    Incomplete,
    /// It is not as it should be; searched as far as the fault.
    Damaged,
}

impl Why {
    /// Whether it may have looked whole to whom it was sent, the stream being cut by the marks of its transport.
    pub(crate) fn may_be_cut(self) -> bool {
        matches!(self, Why::Incomplete | Why::Damaged)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Encrypted => "is encrypted",
            Why::Unsupported => "cannot be opened",
            Why::TooDeep => "lies too deep",
            Why::TooLarge => "is too large to be searched to its end",
            Why::TooMany => "came while too much was open",
            Why::Incomplete => "is incomplete: searched as far as it goes",
            Why::Damaged => "is damaged: searched as far as the fault",
        })
    }
}

/// Containers inside each other, outermost first, as a message tells them: ` inside gzip inside base64`.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a>(pub &'a [Container]);

impl fmt::Display for Inside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|container| write!(f, " inside {container}"))
    }
}

/// How many containers may lie in each other. Base64 and hex around one do not count.
pub(super) const DEPTH: usize = 3;

/// The containers that bytes lie in, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    /// Each container may have text around it, and the innermost may hold text as well.
    links: [Option<Container>; 2 * DEPTH + 1],
}

impl Chain {
    /// One container deeper; `None` where that is too deep.
    pub(super) fn with(mut self, container: Container) -> Option<Self> {
        let depth = self.links.iter().flatten().filter(|container| !container.is_text()).count();
        if depth == DEPTH && !container.is_text() {
            return None;
        }
        *self.links.iter_mut().find(|link| link.is_none())? = Some(container);
        Some(self)
    }

    /// Whether the innermost is text that stands for bytes.
    pub(super) fn ends_in_text(&self) -> bool {
        self.links.iter().flatten().last().is_some_and(|container| container.is_text())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links[0].is_none()
    }

    pub(super) fn to_vec(self) -> Vec<Container> {
        self.links.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_where_searching_does() {
        let three = [Container::Zip, Container::Gzip, Container::Zlib];
        let chain = three.into_iter().try_fold(Chain::default(), |chain, container| {
            chain.with(Container::Base64).and_then(|chain| chain.with(container))
        });
        assert_eq!(chain.unwrap().to_vec().len(), 6);
        assert_eq!(chain.unwrap().with(Container::Gzip), None);
        let text = chain.unwrap().with(Container::Hex);
        assert_eq!(text.and_then(|chain| chain.with(Container::Gzip)), None);
    }

    #[test]
    fn messages_tell_the_innermost_first() {
        let unsearched = Unsearched {
            inside: vec![Container::Base64, Container::Gzip],
            ..Unsearched::whole(Container::Zip, Why::Encrypted)
        };
        assert_eq!(unsearched.to_string(), "zip inside gzip inside base64 is encrypted");
    }
}
