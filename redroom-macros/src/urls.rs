//! Whether a literal has the shape of a page's URL. The fake domain is known only at run time, and so is how a client
//! spells the path: what is refused here would be refused there, not the reverse.

/// Where a page is found, as far as the text tells: host and the rest. `http` and `https` find the same page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    host: String,
    rest: String,
}

/// Reads a URL.
pub(crate) fn place(url: &str) -> Result<Place, &'static str> {
    if url.trim() != url || url.contains(|c: char| c.is_control() || c == '\\') {
        return Err("must not hold control characters, backslashes, or spaces at its ends");
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let own_port = match scheme.to_ascii_lowercase().as_str() {
        "https" => "443",
        "http" => "80",
        _ => return Err("must start with `https://` or `http://`"),
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("must not name a user or a password");
    }
    if authority.starts_with('[') {
        return Err(NO_HOST);
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    if !port.is_empty() && port != own_port {
        return Err("must not name a port: pages are found at 443 and 80");
    }
    if rest.contains('#') {
        return Err("must not hold a fragment (`#…`): clients do not send it");
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_lowercase();
    if !is_host(&host) {
        return Err(NO_HOST);
    }
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    Ok(Place { host, rest })
}

const NO_HOST: &str = "must name a host such as `docs.redroom.test`";

/// Letters beyond ASCII are left to the run, which knows how a client spells them.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '%') || !c.is_ascii())
    };
    let is_number = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    host.len() <= 253 && !is_number && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_place_is_seen_through_its_spellings() {
        let place_of = |url| place(url).unwrap();
        assert_eq!(place_of("https://a.redroom.test/x?y"), place_of("HTTP://A.Redroom.test.:80/x?y"));
        assert_eq!(place_of("https://redroom.test"), place_of("https://redroom.test:443/"));
        assert_ne!(place_of("https://redroom.test/x"), place_of("https://redroom.test/X"));
    }

    #[test]
    fn what_no_client_can_ask_for_is_refused() {
        for url in [
            "",
            "docs.redroom.test",
            "ftp://redroom.test/",
            "https:redroom.test",
            "https://",
            "https:///x",
            "https://u@redroom.test/",
            "https://redroom.test:8080/",
            "http://redroom.test:443/",
            "https://redroom.test/#x",
            "https://redroom.test#x",
            "https://[::1]/",
            "https://10.0.0.1/",
            "https://*.redroom.test/",
            "https://a..redroom.test/",
            "https://redroom.test/\n",
            " https://redroom.test/",
            "https://redroom.test\\x",
        ] {
            assert!(place(url).is_err(), "{url:?}");
        }
    }
}
