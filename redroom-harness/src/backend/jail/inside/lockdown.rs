//! The first process gives up every right, for itself and for all that it will ever start.

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::super::layout::Step as Piece;
use super::super::protocol::{Landlock, Spec};
use super::super::sys::{Kernel, Refused, Step};
use super::filter;

/// Newer ones refuse more; older kernels do what they can.
const NEWEST: ABI = ABI::V6;

/// Gives up everything. Tells how much of the second layer there is.
pub(super) fn lock(kernel: &dyn Kernel, spec: &Spec) -> Result<Landlock, Refused> {
    for (resource, value) in &spec.limits {
        kernel.limit(*resource, *value).step("rlimit")?;
    }
    kernel.shut_bounding_set().step("bounding set")?;
    if let Some(user) = spec.user {
        kernel.become_user(user).step("setresuid")?;
        // A change of user switched it off.
        kernel.die_with_parent().step("death signal")?;
    }
    kernel.drop_capabilities().step("capabilities")?;
    kernel.close_to_others().step("dumpable")?;
    rustix::thread::set_no_new_privs(true).step("no_new_privs")?;
    let landlock = confine(&spec.steps).map_err(|error| Refused::new("landlock", error))?;
    filter::apply().map_err(|error| Refused::new("seccomp", error))?;
    Ok(landlock)
}

/// A second layer under the mounts: nothing is written but the agent's own, and no signal and no abstract socket leads out.
fn confine(pieces: &[Piece]) -> Result<Landlock, RulesetError> {
    let own = pieces.iter().filter_map(|piece| match piece {
        Piece::Own { at, .. } => Some(at.as_str()),
        _ => None,
    });
    let writable: Vec<&str> = own.chain(["/dev"]).collect();
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(NEWEST)))?
        // A process may tell the kernel about itself.
        .add_rules(path_beneath_rules(["/proc"], AccessFs::from_read(NEWEST) | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(writable, AccessFs::from_all(NEWEST)))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Landlock::Full,
        RulesetStatus::PartiallyEnforced => Landlock::Part,
        RulesetStatus::NotEnforced => Landlock::Lacking,
    })
}
