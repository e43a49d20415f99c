//! What is a credential: which names are there to carry one, and which values look like one whatever they are called.
//!
//! Pure. What is held is taken out of everything that is stored or said: a plain word that were held, such as the name of a
//! provider, would take honest words with it.

/// A piece of so many characters is no word.
const LONG: usize = 24;
/// A run of letters and digits of this length is no word if the two change places in it often enough.
const MIXED: (usize, usize) = (12, 3);
/// How keys begin that say what they are.
const BEGINNINGS: [&str; 12] =
    ["sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xox", "AKIA", "eyJ"];

/// Whether a header, or a part of a query, is there to carry credentials: `authorization`, `x-api-key`, `x-auth-token`.
pub(crate) fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let words = ["authorization", "cookie", "api_key", "apikey", "token", "secret", "credential", "password", "passwd"];
    words.iter().any(|word| name.contains(word)) || name.split('_').any(|word| matches!(word, "key" | "auth"))
}

/// Whether a value looks like a key: it is long, begins like one, or mixes letters and digits as no word does.
pub(crate) fn looks_like_key(value: &str) -> bool {
    let mut pieces = value.split([' ', ',', ';', '"', '\'', '=', '/', '(', ')']).filter(|piece| !piece.is_empty());
    pieces.any(|piece| {
        piece.chars().count() >= LONG
            || BEGINNINGS.iter().any(|beginning| piece.starts_with(beginning))
            || piece.split(|char: char| !char.is_ascii_alphanumeric()).any(is_mixed)
    })
}

fn is_mixed(run: &str) -> bool {
    let changes = run.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    run.len() >= MIXED.0 && changes >= MIXED.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_carry_credentials_are_known_in_any_spelling() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "x-api-key",
            "X_API_KEY",
            "api-key",
            "x-goog-api-key",
            "ocp-apim-subscription-key",
            "key",
            "cookie",
            "x-auth-token",
            "x-auth",
            "x-client-secret",
            "x-amz-security-token",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in
            ["accept", "x-provider", "x-keyboard", "monkey", "anthropic-beta", "author", "x-region", "user-agent"]
        {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn keys_are_told_from_words() {
        for value in [
            "sk-ant-1234",
            "gateway/sk-ant-1234",
            "AKIAIOSFODNN7EXAMPLE",
            "x9K2mQ7pL4vZ",
            "9f8a7b6c5d4e3f2a",
            "550e8400-e29b-41d4-a716-446655440000",
            "correcthorsebatterystaple",
            "id=x9K2mQ7pL4vZ",
        ] {
            assert!(looks_like_key(value), "{value}");
        }
        for value in [
            "",
            "anthropic",
            "claude-sonnet-4-5",
            "eu-central-1",
            "production2024",
            "security engineering, second floor",
            "application/json; charset=utf-8",
            "2023-06-01",
            "gatewayProductionEurope",
        ] {
            assert!(!looks_like_key(value), "{value}");
        }
    }
}
