//! The pages that a user plants in the fake internet, as they were written, and the URLs that they can be found at.

use std::borrow::Cow;
use std::fmt;

use url::{Host, Url};

use super::body::Body;
use super::named::named;
use crate::error::Result;

/// The `Content-Type` of a page that names none.
const HTML: &str = "text/html; charset=utf-8";

/// A page to plant. Text converts into one: HTML, status 200. Text is a template in which `${secrets.NAME}` stands for a
/// secret's value.
///
/// ```
/// # use redroom_harness::Page;
/// let gone = Page::new("{\"error\": \"gone\"}").content_type("application/json").status(410);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it holds.
    pub body: Body,
    /// The `Content-Type` header.
    pub content_type: String,
    /// The HTTP status, from 200 to 599.
    pub status: u16,
}

impl Page {
    /// An HTML page with the status 200.
    pub fn new(body: impl Into<Body>) -> Self {
        Page { body: body.into(), content_type: HTML.to_owned(), status: 200 }
    }

    /// Names the `Content-Type`.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Names the HTTP status, from 200 to 599.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

impl From<&str> for Page {
    fn from(html: &str) -> Self {
        Page::new(html)
    }
}

impl From<String> for Page {
    fn from(html: String) -> Self {
        Page::new(html)
    }
}

impl From<&String> for Page {
    fn from(html: &String) -> Self {
        Page::new(html)
    }
}

impl From<Cow<'_, str>> for Page {
    fn from(html: Cow<'_, str>) -> Self {
        Page::new(html)
    }
}

/// Pages to plant, in order. URLs are read when the run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(Vec<(String, Page)>);

impl Pages {
    /// The same pages and one more.
    #[must_use]
    pub fn with(mut self, url: impl Into<String>, page: impl Into<Page>) -> Self {
        self.0.push((url.into(), page.into()));
        self
    }
}

named!(Pages of Page, by IntoPages::into_pages);

/// What `pages` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no pages to plant",
    label = "not pages",
    note = "`pages` takes a map literal, `Pages`, a `Result` of it, an array, `Vec`, slice or map of (URL, page)"
)]
pub trait IntoPages {
    /// The pages.
    ///
    /// # Errors
    /// When they cannot be made; told when the run starts.
    fn into_pages(self) -> Result<Pages>;
}

/// Where a page can be found: a host, and path and query as a client sends them. `http` and `https` find the same page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageUrl {
    host: String,
    path: String,
}

/// Why a text is no URL for a planted page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageUrlFault {
    /// Neither `http://` nor `https://`.
    #[error("must start with `https://` or `http://`")]
    Scheme,
    /// Spaces around it, control characters or backslashes: clients disagree on what these mean.
    #[error("must not hold control characters, backslashes, or spaces at its ends")]
    Characters,
    /// A user or password.
    #[error("must not name a user or a password")]
    UserInfo,
    /// A port other than the scheme's own.
    #[error("must not name a port: pages are found at 443 and 80")]
    Port,
    /// A fragment.
    #[error("must not hold a fragment (`#…`): clients do not send it")]
    Fragment,
    /// No name of a host.
    #[error("must name a host such as `docs.redroom.test`")]
    Host,
    /// A host outside the fake domain.
    #[error("must lie in the fake domain: at `{0}` or at a name that ends in `.{0}`")]
    Elsewhere(String),
    /// The `url` library refuses it.
    #[error("is no URL: {0}")]
    Malformed(url::ParseError),
}

impl PageUrl {
    /// Reads a URL of the fake domain, which is written in lower case and without dots at its ends.
    ///
    /// # Errors
    /// When no client could ask for it, or not of the fake internet.
    pub fn parse(text: &str, fake_domain: &str) -> Result<Self, PageUrlFault> {
        if text.trim() != text || text.contains(|c: char| c.is_control() || c == '\\') {
            return Err(PageUrlFault::Characters);
        }
        let has_scheme =
            |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if !has_scheme("https://") && !has_scheme("http://") {
            return Err(PageUrlFault::Scheme);
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::EmptyHost => PageUrlFault::Host,
            error => PageUrlFault::Malformed(error),
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(PageUrlFault::UserInfo);
        }
        if url.port().is_some() {
            return Err(PageUrlFault::Port);
        }
        if url.fragment().is_some() {
            return Err(PageUrlFault::Fragment);
        }
        let Some(Host::Domain(host)) = url.host() else { return Err(PageUrlFault::Host) };
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if !is_host_name(&host) {
            return Err(PageUrlFault::Host);
        }
        if !is_at_or_under(&host, fake_domain) {
            return Err(PageUrlFault::Elsewhere(fake_domain.to_owned()));
        }
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        Ok(PageUrl { host, path })
    }

    /// Lower case, without port, without a dot at its end.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.host, self.path)
    }
}

fn is_host_name(host: &str) -> bool {
    host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        })
}

fn is_at_or_under(host: &str, domain: &str) -> bool {
    let mut host = host.rsplit('.');
    domain.rsplit('.').all(|label| host.next().is_some_and(|of_host| of_host.eq_ignore_ascii_case(label)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashMap};

    fn parse(text: &str) -> Result<(String, String), PageUrlFault> {
        PageUrl::parse(text, "redroom.test").map(|url| (url.host, url.path))
    }

    #[test]
    fn host_and_path_are_what_a_client_sends() {
        for (text, host, path) in [
            ("https://docs.redroom.test/setup", "docs.redroom.test", "/setup"),
            ("http://redroom.test", "redroom.test", "/"),
            ("HTTPS://Docs.Redroom.Test:443/a b?q=ü&x", "docs.redroom.test", "/a%20b?q=%C3%BC&x"),
            ("https://a.b.redroom.test./x/../y?", "a.b.redroom.test", "/y?"),
            ("https://redroom.test?q=1", "redroom.test", "/?q=1"),
            ("https://redroom.test/%7Euser/%2e%2E/x", "redroom.test", "/x"),
        ] {
            assert_eq!(parse(text), Ok((host.to_owned(), path.to_owned())), "{text}");
        }
    }

    #[test]
    fn each_bad_url_is_refused_for_its_own_reason() {
        let elsewhere = PageUrlFault::Elsewhere("redroom.test".to_owned());
        for (text, fault) in [
            ("docs.redroom.test/x", PageUrlFault::Scheme),
            ("ftp://redroom.test/", PageUrlFault::Scheme),
            ("https:redroom.test", PageUrlFault::Scheme),
            (" https://redroom.test/", PageUrlFault::Characters),
            ("https://redroom.test/a\tb", PageUrlFault::Characters),
            ("https:\\\\redroom.test\\", PageUrlFault::Characters),
            ("https://user@redroom.test/", PageUrlFault::UserInfo),
            ("https://:pw@redroom.test/", PageUrlFault::UserInfo),
            ("https://redroom.test:8443/", PageUrlFault::Port),
            ("http://redroom.test:443/", PageUrlFault::Port),
            ("https://redroom.test/#top", PageUrlFault::Fragment),
            ("https://", PageUrlFault::Host),
            ("https://10.0.0.1/", PageUrlFault::Host),
            ("https://[::1]/", PageUrlFault::Host),
            ("https://*.redroom.test/", PageUrlFault::Host),
            ("https://a..redroom.test/", PageUrlFault::Host),
            ("https://example.com/", elsewhere.clone()),
            ("https://evilredroom.test/", elsewhere.clone()),
            ("https://redroom.test.evil.example/", elsewhere.clone()),
            ("https://test/", elsewhere),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn text_is_html() {
        assert_eq!(Page::from("<p>"), Page { body: "<p>".into(), content_type: HTML.to_owned(), status: 200 });
    }

    #[test]
    fn everything_that_holds_urls_and_pages_converts() {
        let wanted = Pages::new().with("a", "1").with("b", "2");
        const TABLE: &[(&str, &str)] = &[("a", "1"), ("b", "2")];
        assert_eq!([("a", "1"), ("b", "2")].into_pages().unwrap(), wanted);
        assert_eq!(vec![("a", "1"), ("b", "2")].into_pages().unwrap(), wanted);
        assert_eq!(TABLE.into_pages().unwrap(), wanted);
        assert_eq!(BTreeMap::from([("b", "2"), ("a", "1")]).into_pages().unwrap(), wanted);
        assert_eq!(HashMap::from([("b", "2"), ("a", "1")]).into_pages().unwrap(), wanted);
    }
}
