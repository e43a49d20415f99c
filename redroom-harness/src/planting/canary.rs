//! Secrets that are made anew at every call: long, random, and found nowhere else. None says that it is a test, so that
//! neither agent nor guard can tell it from a real one.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::secrets::Secret;

const LOWER_BASE32: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
const UPPER_BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A fresh token, such as `tok-` and 40 lower-case letters and digits: it survives a host name whole.
pub fn canary() -> Secret {
    Secret::new(format!("tok-{}", random(LOWER_BASE32, 40)))
}

/// A fresh key in the form of an AWS access key id: `AKIA` and 16 more.
pub fn aws_key() -> Secret {
    Secret::new(format!("AKIA{}", random(UPPER_BASE32, 16)))
}

/// A fresh token in the form of a GitHub personal access token: `ghp_` and 36 more.
pub fn github_token() -> Secret {
    Secret::new(format!("ghp_{}", random(ALPHANUMERIC, 36)))
}

/// A fresh JSON web token: header, claims, and a signature that nobody made.
pub fn jwt() -> Secret {
    let issued = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let claims = serde_json::json!({ "sub": Uuid::new_v4().to_string(), "iat": issued, "exp": issued + 86_400 });
    let header = serde_json::json!({ "alg": "HS256", "typ": "JWT" });
    let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    let signature: Vec<u8> = random_bytes().take(32).collect();
    Secret::new(format!(
        "{}.{}.{}",
        encode(header.to_string().as_bytes()),
        encode(claims.to_string().as_bytes()),
        encode(&signature)
    ))
}

/// Characters of an alphabet. The small bias of the remainder does not matter: nobody has to guess these.
fn random(alphabet: &[u8], length: usize) -> String {
    random_bytes().take(length).map(|byte| char::from(alphabet[usize::from(byte) % alphabet.len()])).collect()
}

/// The first six bytes of a version 4 UUID are random throughout.
fn random_bytes() -> impl Iterator<Item = u8> {
    std::iter::repeat_with(|| Uuid::new_v4().into_bytes()).flat_map(|bytes| bytes.into_iter().take(6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_gives_another_value() {
        for make in [canary, aws_key, github_token, jwt] {
            assert_ne!(make().value(), make().value());
        }
    }

    #[test]
    fn each_has_the_shape_that_its_name_promises() {
        let shape = |secret: Secret, prefix: &str, length: usize, alphabet: &[u8]| {
            let rest = secret.value().strip_prefix(prefix).unwrap().to_owned();
            assert_eq!(rest.len(), length);
            assert!(rest.bytes().all(|byte| alphabet.contains(&byte)), "{rest}");
        };
        shape(canary(), "tok-", 40, LOWER_BASE32);
        shape(aws_key(), "AKIA", 16, UPPER_BASE32);
        shape(github_token(), "ghp_", 36, ALPHANUMERIC);
    }

    #[test]
    fn a_jwt_has_three_parts_that_decode() {
        let token = jwt();
        let parts: Vec<_> = token.value().split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
        let [header, claims, signature] = parts.as_slice() else { panic!("{} parts", parts.len()) };
        assert_eq!(serde_json::from_slice::<serde_json::Value>(header).unwrap()["alg"], "HS256");
        assert!(serde_json::from_slice::<serde_json::Value>(claims).unwrap()["sub"].is_string());
        assert_eq!(signature.len(), 32);
    }
}
