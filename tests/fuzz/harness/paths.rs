//! Where something is planted or read: paths that stay in their place, URLs that a client asks for as they are found, texts in
//! which a secret is filled in.

use std::collections::BTreeMap;

use super::draw::Draw;
use crate::planting::{PageUrl, SandboxPath, WorkspacePath, template};
use crate::run::ReadPath;

const DOMAIN: &str = "redroom.test";

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(path) = WorkspacePath::parse(&text) {
        let inside = path.in_sandbox();
        assert_eq!(lexically("/workspace", &text), inside.as_str());
        assert_eq!(SandboxPath::parse(inside.as_str()).as_ref(), Ok(&inside));
    }
    if let Ok(path) = SandboxPath::parse(&text) {
        assert_eq!(lexically("/", &text), path.as_str());
        let closed = ["/proc", "/sys", "/dev", "/etc/claude-code"];
        assert!(!closed.iter().any(|folder| std::path::Path::new(path.as_str()).starts_with(folder)), "{path}");
    }
    if let Ok(path) = ReadPath::parse(&text) {
        assert_eq!(lexically("/workspace", &text), path.as_str());
        assert!(path.as_str().len() <= 4095 && !path.as_str().contains('\0'));
    }
    url(&text);
    url(&format!("https://{text}.{DOMAIN}/{text}"));
    filled(&mut Draw::new(data));
}

/// Where a path leads from a folder, by its words alone: never up.
fn lexically(folder: &str, path: &str) -> String {
    assert!(!path.split('/').any(|part| part == ".."), "{path:?} leads up");
    let base = if path.starts_with('/') { "/" } else { folder };
    let parts = base.split('/').chain(path.split('/')).filter(|part| !part.is_empty() && *part != ".");
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

fn url(text: &str) {
    let Ok(url) = PageUrl::parse(text, DOMAIN) else { return };
    assert!(!text.contains('#'), "what no client sends is not left out");
    let host = url.host();
    assert!(host == DOMAIN || host.ends_with(".redroom.test"), "{host:?}");
    assert!(host.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)));
    assert!(host.len() <= 253 && host.split('.').all(|label| (1..=63).contains(&label.len())));
    // Where a client goes: nothing listens at other ports.
    if let Some(uri) = text.parse::<http::Uri>().ok().filter(|uri| uri.port().is_some()) {
        let own = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        assert_eq!(uri.port_u16(), Some(own), "{text:?}");
    }
    // As it stands in a request's first line.
    assert!(url.path().starts_with('/') && url.path().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
    assert!(url.path().parse::<http::Uri>().is_ok(), "{:?}", url.path());
    assert_eq!(PageUrl::parse(&url.to_string(), DOMAIN).as_ref(), Ok(&url), "read again");
}

/// Texts and placeholders, joined: each placeholder is its value, and nothing else has changed.
fn filled(draw: &mut Draw<'_>) {
    let values = BTreeMap::from([("token", "${secrets.token}"), ("n", "VALUE"), ("", "never")]);
    let (mut text, mut expected) = (String::new(), String::new());
    for _ in 0..draw.below(6) {
        // The beginning of a placeholder takes what follows for a name.
        let between = String::from_utf8_lossy(draw.take(20)).replace("${", "$ {");
        let name = ["token", "n"][draw.below(2)];
        text.push_str(&format!("{between}${{secrets.{name}}}"));
        expected.push_str(&format!("{between}{}", values[name]));
    }
    // A dollar before a placeholder stays one.
    assert_eq!(template::fill(&text, &values), Ok(expected.clone()), "{text:?}");
    assert_eq!(template::length(&text, &values), expected.len());
    let rest = String::from_utf8_lossy(draw.rest());
    if let Ok(filled) = template::fill(&rest, &values) {
        assert_eq!(template::length(&rest, &values), filled.len());
        assert!(rest.contains("${secrets.") || filled == rest);
    }
}
