//! One program for all targets: libFuzzer, and the target that the environment's `FUZZ_TARGET` names. Without a name it prints
//! all there are.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let targets = [redroom_sidecar::fuzzing::TARGETS, redroom_harness::fuzzing::TARGETS].concat();
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    match targets.iter().find(|(name, _)| *name == wanted) {
        Some((_, target)) => *target,
        None => {
            targets.iter().for_each(|(name, _)| println!("{name}"));
            std::process::exit(i32::from(!wanted.is_empty()))
        }
    }
});

fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
    },
    |data: &[u8]| TARGET(data)
);
