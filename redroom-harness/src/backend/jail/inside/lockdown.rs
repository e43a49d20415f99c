//! The first process gives up every right, for itself and for all that it will ever start.

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::super::layout::Step as Piece;
use super::super::protocol::{Landlock, Spec};
use super::super::sys::{Kernel, Refused, Step};
use super::filter::Filters;

/// Newer ones refuse more; older kernels do what they can.
const NEWEST: ABI = ABI::V6;

/// Gives up everything. Tells how much of the second layer there is.
pub(super) fn lock(kernel: &dyn Kernel, spec: &Spec, filters: &Filters) -> Result<Landlock, Refused> {
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
    kernel.gain_nothing().step("no_new_privs")?;
    let landlock = confine(&spec.steps).map_err(|error| Refused::new("landlock", error))?;
    filters.apply().map_err(|error| Refused::new("seccomp", error))?;
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

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::super::fake::Fake;
    use super::*;

    /// All but the last steps, which cannot be taken back: the fake refuses before them.
    fn locked(what: &'static str, user: Option<u32>) -> (Fake, Refused) {
        let kernel = Fake::refusing(what, Errno::PERM);
        let spec = Spec { user, limits: vec![(7, 100)], room: 0, files: 0, steps: Vec::new() };
        let refused = lock(&kernel, &spec, &Filters::new().unwrap()).unwrap_err();
        (kernel, refused)
    }

    #[test]
    fn whatever_cannot_be_given_up_ends_the_sandbox() {
        for (what, step) in [
            ("limit 7", "rlimit"),
            ("bounding set", "bounding set"),
            ("user 9", "setresuid"),
            ("death signal", "death signal"),
            ("capabilities", "capabilities"),
            ("dumpable", "dumpable"),
            ("no new privileges", "no_new_privs"),
        ] {
            let (_, refused) = locked(what, Some(9));
            assert_eq!((refused.step.as_str(), refused.errno), (step, Errno::PERM.raw_os_error()));
        }
    }

    #[test]
    fn the_bounding_set_is_shut_while_that_is_allowed_and_the_death_signal_renewed_after_the_user_changed() {
        let (kernel, _) = locked("no new privileges", Some(9));
        let order = ["limit", "bounding set", "user", "death signal", "capabilities", "dumpable", "no new privileges"];
        let positions = order.map(|step| kernel.position(step));
        assert!(positions.is_sorted(), "{positions:?}");
        let (kernel, _) = locked("no new privileges", None);
        assert!(!kernel.asked.borrow().iter().any(|what| what.starts_with("user")));
    }
}
