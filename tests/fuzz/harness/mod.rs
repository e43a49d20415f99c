//! The fuzz targets of the harness: what sidecars, agents, models, guards and people who write settings give to it.
//! `tests/fuzz/README.md` says what each of them asserts.

mod asks;
mod blocks;
mod config;
mod guard;
mod link;
mod paths;
mod redactor;
mod stream_json;
#[cfg(target_os = "linux")]
mod tree;
mod untar;

#[cfg(test)]
#[path = "../again.rs"]
mod again;
#[path = "../draw.rs"]
mod draw;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every one.
pub const TARGETS: &[Target] = &[
    ("asks", asks::run),
    ("blocks", blocks::run),
    ("config", config::run),
    ("guard", guard::run),
    ("link", link::run),
    ("paths", paths::run),
    ("redactor", redactor::run),
    ("stream_json", stream_json::run),
    #[cfg(target_os = "linux")]
    ("tree", tree::run),
    ("untar", untar::run),
];

#[cfg(all(test, target_os = "linux"))]
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

    again! { asks blocks config guard link paths redactor stream_json tree untar }
}
