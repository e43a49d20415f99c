//! Messages of DNS that are sent elsewhere than to the resolver: over TLS, over HTTPS, to a port of their own (mDNS). A name
//! lies in pieces in them, so that a search through their bytes would miss what is cut over several.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::CONTENT_TYPE;

use super::lookup;
use crate::search::{Searched, SecretSet};
use crate::wire::Octets;

/// What HTTP calls one.
const MEDIA_TYPE: &[u8] = b"application/dns-message";

/// Searches the names of what may be a message. What is none has hardly any.
pub(crate) fn search_message(secrets: &SecretSet, message: &[u8]) -> Searched {
    let mut searched = Searched::default();
    lookup::names(message).iter().for_each(|name| searched.join(secrets.search_name(name)));
    // It may be none, and what was cut out of it at random look broken.
    searched.unsearched.retain(|part| !part.why.may_be_cut());
    searched
}

/// Messages that come one after the other with their lengths before them, in chunks that are cut anywhere.
#[derive(Default)]
pub(crate) struct Messages {
    /// The one that is not whole yet, with its length: 64 KiB at most.
    rest: Vec<u8>,
}

impl Messages {
    /// Searches what has become whole.
    pub(crate) fn feed(&mut self, secrets: &SecretSet, chunk: &[u8]) -> Searched {
        self.rest.extend_from_slice(chunk);
        let mut searched = Searched::default();
        let mut whole = 0;
        while let [high, low, after @ ..] = &self.rest[whole..]
            && let Some(message) = after.get(..usize::from(u16::from_be_bytes([*high, *low])))
        {
            searched.join(search_message(secrets, message));
            whole += 2 + message.len();
        }
        self.rest.drain(..whole);
        searched
    }

    /// Searches one that was cut off.
    pub(crate) fn finish(self, secrets: &SecretSet) -> Searched {
        search_message(secrets, self.rest.get(2..).unwrap_or_default())
    }
}

/// The same for a body, if its headers say that it is a message.
pub(crate) fn search_body(secrets: &SecretSet, headers: &[(String, Octets)], body: &[u8]) -> Searched {
    let is_message = headers.iter().any(|(name, value)| {
        let kind = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
        name == CONTENT_TYPE.as_str() && kind.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE)
    });
    if is_message { search_message(secrets, body) } else { Searched::default() }
}

/// The same for a target that carries a message.
pub(crate) fn search_target(secrets: &SecretSet, target: &str) -> Searched {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let carried = query.split('&').filter_map(|pair| pair.strip_prefix("dns="));
    let messages = carried.filter_map(|text| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok());
    messages.map(|message| search_message(secrets, &message)).fold(Searched::default(), |mut all, searched| {
        all.join(searched);
        all
    })
}
