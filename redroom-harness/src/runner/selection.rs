//! Which tests are run, which are passed over, which are left out: as libtest decides it.

use super::arguments::{Ignored, Selection};
use crate::registry::{Registration, ShouldPanic};

/// What became of the whole list.
pub(super) struct Selected {
    pub(super) tests: Vec<Test>,
    pub(super) filtered_out: usize,
}

/// A test that was let through.
#[derive(Clone, Copy)]
pub(super) struct Test {
    pub(super) attack: &'static Registration,
    /// It is named, and not run.
    pub(super) passed_over: bool,
}

impl Selection {
    pub(super) fn of(&self, attacks: &[&'static Registration]) -> Selected {
        let tests: Vec<Test> = attacks
            .iter()
            .filter(|attack| self.lets_through(attack))
            .map(|attack| Test {
                attack,
                passed_over: self.benchmarks_only || (attack.is_ignored() && self.ignored == Ignored::PassedOver),
            })
            .collect();
        Selected { filtered_out: attacks.len() - tests.len(), tests }
    }

    fn lets_through(&self, attack: &Registration) -> bool {
        let name = attack.test_name();
        let matches = |filter: &String| if self.exact { name == filter } else { name.contains(filter.as_str()) };
        (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skip.iter().any(matches)
            && self.tags.let_through(attack.tags)
            && (self.ignored != Ignored::Only || attack.is_ignored())
            && !(self.exclude_should_panic && attack.should_panic != ShouldPanic::No)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tags::{Named, Tags};
    use super::*;
    use crate::options::RunOptions;
    use crate::registry::{Ignore, Prepared};

    fn attack(name: &'static str, ignore: Ignore, should_panic: ShouldPanic) -> &'static Registration {
        Box::leak(Box::new(Registration {
            name,
            file: "tests/attacks.rs",
            line: 1,
            ignore,
            should_panic,
            tags: if should_panic == ShouldPanic::No { &["calm"] } else { &["panics"] },
            prepare: || Prepared { options: RunOptions::new(), body: Box::new(|_| Box::pin(async { Ok(()) })) },
        }))
    }

    fn selection(filters: &[&str], skip: &[&str], exact: bool) -> Selection {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Selection { filters: owned(filters), skip: owned(skip), exact, ..Selection::default() }
    }

    fn let_through(selection: &Selection) -> Vec<(&'static str, bool)> {
        let attacks = [
            attack("a::web::page", Ignore::No, ShouldPanic::No),
            attack("a::web::pager", Ignore::No, ShouldPanic::Yes),
            attack("a::dns::name", Ignore::No, ShouldPanic::No),
            attack("a::dns::old", Ignore::Yes, ShouldPanic::No),
        ];
        let selected = selection.of(&attacks);
        assert_eq!(selected.tests.len() + selected.filtered_out, attacks.len());
        selected.tests.iter().map(|test| (test.attack.test_name(), test.passed_over)).collect()
    }

    #[test]
    fn a_test_is_let_through_that_matches_any_of_the_filters_and_none_of_the_skips() {
        for (filters, skip, exact, expected) in [
            (&[][..], &[][..], false, &["web::page", "web::pager", "dns::name", "dns::old"][..]),
            (&["page"], &[], false, &["web::page", "web::pager"]),
            (&["page", "name"], &[], false, &["web::page", "web::pager", "dns::name"]),
            (&["web::page", "dns::name"], &[], true, &["web::page", "dns::name"]),
            (&["web::page", "dns"], &[], true, &["web::page"]),
            (&["page", "dns"], &["pager", "name"], false, &["web::page", "dns::old"]),
            (&["web::page", "dns::name"], &["dns::name"], true, &["web::page"]),
            (&["nothing", "at all"], &[], false, &[]),
        ] {
            let names: Vec<_> = let_through(&selection(filters, skip, exact)).iter().map(|(name, _)| *name).collect();
            assert_eq!(names, expected, "{filters:?} {skip:?} {exact}");
        }
    }

    #[test]
    fn ignored_tests_are_passed_over_included_or_the_only_ones() {
        let with = |ignored| let_through(&Selection { ignored, ..selection(&["dns"], &[], false) });
        assert_eq!(with(Ignored::PassedOver), [("dns::name", false), ("dns::old", true)]);
        assert_eq!(with(Ignored::Included), [("dns::name", false), ("dns::old", false)]);
        assert_eq!(with(Ignored::Only), [("dns::old", false)]);
    }

    #[test]
    fn a_tag_lets_through_what_the_filters_let_through_too() {
        let calm = Named::new(vec!["calm".to_owned()], "REDROOM_TAGS", None);
        let tags = Tags { any_of: calm, none_of: Named::default() };
        let web = Selection { tags, ..selection(&["web"], &[], false) };
        assert_eq!(let_through(&web), [("web::page", false)]);
    }

    #[test]
    fn tests_that_should_panic_can_be_left_out_and_benchmarks_leave_nothing_to_run() {
        let without = Selection { exclude_should_panic: true, ..Selection::default() };
        assert!(!let_through(&without).iter().any(|(name, _)| *name == "web::pager"));
        let none = Selection { benchmarks_only: true, ..Selection::default() };
        assert!(let_through(&none).iter().all(|(_, passed_over)| *passed_over));
    }
}
