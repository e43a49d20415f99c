//! Bytes of unknown kind, kept exactly: as text where they are UTF-8, else as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that somebody else chose. Stored as a string when they are UTF-8, else as `{"base64": "…"}`, so that nothing is
/// lost and a person can read what can be read.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Octets(pub Vec<u8>);

impl Octets {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with replacement characters where it is none.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Octets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

impl From<Vec<u8>> for Octets {
    fn from(bytes: Vec<u8>) -> Self {
        Octets(bytes)
    }
}

impl From<&str> for Octets {
    fn from(text: &str) -> Self {
        Octets(text.as_bytes().to_vec())
    }
}

#[derive(Serialize, Deserialize)]
struct Base64 {
    base64: String,
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Base64 { base64: STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Binary(Base64),
        }
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Octets(text.into_bytes())),
            Form::Binary(Base64 { base64 }) => STANDARD.decode(base64).map(Octets).map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Octets;

    #[test]
    fn bytes_survive_json_whatever_they_are() {
        for bytes in [&b""[..], b"text", "caf\u{e9}".as_bytes(), &[0xff, 0x00, 0xfe]] {
            let octets = Octets(bytes.to_vec());
            let json = serde_json::to_string(&octets).unwrap();
            assert_eq!(serde_json::from_str::<Octets>(&json).unwrap(), octets, "{json}");
        }
    }

    #[test]
    fn text_stays_readable() {
        assert_eq!(serde_json::to_string(&Octets::from("a b")).unwrap(), "\"a b\"");
    }
}
