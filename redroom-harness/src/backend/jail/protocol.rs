//! What the harness and the helpers of a jail say to each other. Types only.
//!
//! Three channels: harness and keeper (a slot's life), harness and helper (a sandbox's making), harness and first process (its
//! life). The latter two are one socket: who speaks on it is the helper up to the fork, then the first process, which begins with who
//! it is, then the helper again, once that has ended. So its end comes last, wherever it ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::layout::Step;
use super::sys::Refused;

/// To a slot's keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToKeeper {
    /// Makes the slot's network. First of all.
    Open {
        /// Whether it may do so without a user namespace.
        privileged: bool,
        /// How long it goes on without a word.
        silence: Duration,
    },
    /// Nothing but a sign of life.
    Renew,
    /// Starts a sandbox's helper; its socket comes along.
    Sandbox,
}

/// From a slot's keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromKeeper {
    /// The network is there; the sidecar's sockets come along.
    Opened,
    /// It is not.
    Refused(Refused),
}

/// To a sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToSandbox {
    /// The helper is under its limits when it has entered the control groups whose doors come along: by writing a zero into each.
    Begin,
    /// Everything is planted; a file with the [`Spec`] comes along.
    Make,
    /// Runs a command. A file with the [`Command`] comes along, and its three standard streams.
    Run(u64),
    /// Kills everything that runs.
    KillAll,
}

/// From a sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSandbox {
    /// The helper lives; a descriptor of it comes along.
    Helper {
        /// Its number outside.
        pid: i32,
    },
    /// The first process lives; a descriptor of it comes along, and the trees to plant into: the agent's, and root's.
    First,
    /// The root is built, and comes along.
    Built,
    /// Commands can be run.
    Ready(Landlock),
    /// A step was refused.
    Refused(Refused),
    /// A command could not be started: the error's number.
    NotStarted(u64, i32),
    /// A command has ended, with this exit code or 128 + its signal.
    Exited(u64, i32),
    /// The first process has ended, in the same form.
    Ended(i32),
}

/// How much of the second layer this kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Landlock {
    /// All that is asked for.
    Full,
    /// A part of it.
    Part,
    /// None.
    Lacking,
}

/// What a sandbox is made of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The user and group of the jail, where it has no user namespace.
    pub(super) user: Option<u32>,
    /// Resource limits.
    pub(super) limits: Vec<(u32, u64)>,
    /// How much the agent's trees may hold, in bytes.
    pub(super) room: u64,
    /// How many files and folders they may hold.
    pub(super) files: u64,
    /// The root, piece by piece.
    pub(super) steps: Vec<Step>,
}

/// A command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: String,
}
