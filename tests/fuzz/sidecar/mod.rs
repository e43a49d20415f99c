//! The fuzz targets of the sidecar: what an agent sends to it. `tests/fuzz/README.md` says what each of them asserts.

mod containers;
mod dns;
mod http1;
mod http2;
mod redact;
mod search;
mod websocket;

#[cfg(test)]
#[path = "../again.rs"]
mod again;
#[path = "../draw.rs"]
mod draw;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every one.
pub const TARGETS: &[Target] = &[
    ("containers", containers::run),
    ("dns", dns::run),
    ("http1", http1::run),
    ("http2", http2::run),
    ("redact", redact::run),
    ("search", search::run),
    ("websocket", websocket::run),
];

#[cfg(test)]
mod tests {
    use super::again::again;

    macro_rules! again {
        ($($target:ident)*) => {
            $(#[test] fn $target() { again(stringify!($target), super::$target::run); })*

            #[test]
            fn every_target_is_run_again() {
                let run: &[&str] = &[$(stringify!($target)),*];
                assert!(super::TARGETS.iter().map(|(name, _)| name).eq(run));
            }
        };
    }

    again! { containers dns http1 http2 redact search websocket }
}
