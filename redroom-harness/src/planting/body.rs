//! What a planted file or page holds: text, which is a template, or bytes, which are never touched.

use std::borrow::Cow;
use std::fmt;

/// The content of a planted file or page.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// Text, in which `${secrets.NAME}` stands for a secret's value.
    Text(String),
    /// Bytes, planted exactly as they are.
    Bytes(Vec<u8>),
}

impl Body {
    /// The same content as a template, if it is UTF-8.
    #[must_use]
    pub(super) fn with_secrets(self) -> Self {
        match self {
            Body::Bytes(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Body::Text(text),
                Err(error) => Body::Bytes(error.into_bytes()),
            },
            text @ Body::Text(_) => text,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Body::Bytes(bytes) => write!(f, "Bytes({} bytes)", bytes.len()),
        }
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Body::Text(text.to_owned())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Body::Text(text)
    }
}

impl From<&String> for Body {
    fn from(text: &String) -> Self {
        Body::Text(text.clone())
    }
}

impl From<Cow<'_, str>> for Body {
    fn from(text: Cow<'_, str>) -> Self {
        Body::Text(text.into_owned())
    }
}

impl From<&[u8]> for Body {
    fn from(bytes: &[u8]) -> Self {
        Body::Bytes(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Body {
    fn from(bytes: &[u8; N]) -> Self {
        Body::Bytes(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Body;

    #[test]
    fn only_what_is_utf8_becomes_a_template() {
        assert_eq!(Body::from(b"caf\xc3\xa9").with_secrets(), Body::Text("café".to_owned()));
        assert_eq!(Body::from(b"\xff\x00").with_secrets(), Body::Bytes(vec![0xff, 0]));
    }

    #[test]
    fn its_debug_form_does_not_show_the_content() {
        assert_eq!(format!("{:?}", Body::from("PLATYPUS-7731")), "Text(13 bytes)");
    }
}
