//! Why a service could not be asked, in a sentence for people.

use std::error::Error as StdError;

use hyper_util::client::legacy;

use crate::error::chain;

/// The reason, and what to do about it where that is known.
pub(crate) fn explain(error: &legacy::Error) -> String {
    let told = chain(error);
    let advice = advice(error, &told);
    match advice {
        None => told,
        Some(advice) => format!("{told}: {advice}"),
    }
}

fn advice(error: &legacy::Error, told: &str) -> Option<&'static str> {
    if let Some(tls) = causes(error).find_map(tls_error) {
        return Some(match tls {
            rustls::Error::InvalidMessage(_) => {
                "it does not speak TLS; write http:// in its address if it is meant to be asked without"
            }
            rustls::Error::InvalidCertificate(_) => {
                "its certificate is not trusted here; name the authority that signed it in `ca`, or in SSL_CERT_FILE"
            }
            _ => "TLS could not be agreed on with it",
        });
    }
    if told.contains("tls handshake eof") || told.contains("(Connect): Connection reset by peer") {
        return Some(
            "it closed the connection instead of speaking TLS; write http:// in its address if it is meant to be asked without",
        );
    }
    if told.contains("tunnel error") {
        return Some(match told.contains("authorization required") {
            true => "the proxy that HTTPS_PROXY names wants a user and a password that it knows",
            false => {
                "the proxy that HTTPS_PROXY names did not connect; name services that are reached without it in NO_PROXY"
            }
        });
    }
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_parse)
        .then_some("what it answers is not HTTP; write https:// in its address if it speaks TLS")
}

/// What is wrong with TLS, however many errors of input and output it is wrapped in: these name no cause themselves.
fn tls_error(cause: Cause<'_>) -> Option<&rustls::Error> {
    match cause.downcast_ref::<std::io::Error>() {
        Some(error) => tls_error(error.get_ref()?),
        None => cause.downcast_ref(),
    }
}

type Cause<'a> = &'a (dyn StdError + 'static);

fn causes<'a>(error: Cause<'a>) -> impl Iterator<Item = Cause<'a>> {
    std::iter::successors(Some(error), |error: &Cause<'a>| (*error).source())
}
