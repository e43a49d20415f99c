//! The life of a jail's own processes: this executable, started again. One thread each, no runtime, no state of the harness.
//!
//! A slot's **keeper** makes the network and lives as long as the slot. For each sandbox it splits off a **helper**, which waits
//! in front of the sandbox's namespaces; in there, the **first process** builds the root, gives up every right, and runs commands.
//! Whoever's other end goes away ends; whoever's parent ends is killed by the kernel.

mod build;
mod execute;
#[cfg(test)]
mod fake;
mod filter;
mod first;
mod helper;
mod keeper;
mod lockdown;

use std::process::ExitCode;

/// The first argument of the running executable when it is started as a slot's keeper.
pub(super) const ARGUMENT: &str = "__redroom-jail";

/// Lives as a slot's keeper, if that is what the arguments ask for. Has to be called before there is a second thread.
pub(crate) fn live_if_asked() -> Option<ExitCode> {
    std::env::args_os().nth(1).filter(|argument| argument == ARGUMENT)?;
    Some(match keeper::live() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redroom-jail: {error}");
            ExitCode::FAILURE
        }
    })
}
