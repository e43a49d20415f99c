//! Which tags are asked for: on the command line, or else in the environment.
//!
//! What is slipped on the command line is an error. The environment speaks to all suites of a workspace, of which one may have no
//! attack of a tag: that is only told.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::nearest::nearest;

/// The variables that count where the command line says nothing.
pub(super) const VARIABLES: [&str; 2] = ["REDROOM_TAGS", "REDROOM_SKIP_TAGS"];

/// Which attacks are let through, by their tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags {
    /// One of these, if any is named.
    pub(super) any_of: Named,
    /// None of these.
    pub(super) none_of: Named,
}

/// Tags, and who named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    tags: Vec<String>,
    /// `None` for the command line.
    variable: Option<&'static str>,
}

impl Named {
    /// The command line's, or else those of a variable, with commas or spaces between them.
    pub(super) fn new(given: Vec<String>, variable: &'static str, value: Option<&str>) -> Self {
        match value.filter(|_| given.is_empty()) {
            None => Named { tags: given, variable: None },
            Some(list) => {
                let words = list.split([',', ' ']).filter(|word| !word.is_empty());
                Named { tags: words.map(str::to_owned).collect(), variable: Some(variable) }
            }
        }
    }

    fn names_one_of(&self, tags: &[&str]) -> bool {
        self.tags.iter().any(|tag| tags.contains(&tag.as_str()))
    }

    /// What is to be said of the tags that no attack has.
    fn unknown<'a>(&'a self, argument: &'a str, known: &'a BTreeSet<&str>) -> impl Iterator<Item = String> + 'a {
        self.tags.iter().filter(|tag| !known.contains(tag.as_str())).map(move |tag| {
            let hint = match nearest(tag, known.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None if known.is_empty() => "none has any".to_owned(),
                None => format!("there are {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            format!("{}: no attack here has the tag `{tag}`; {hint}", self.variable.unwrap_or(argument))
        })
    }
}

impl Tags {
    pub(super) fn let_through(&self, tags: &[&str]) -> bool {
        (self.any_of.tags.is_empty() || self.any_of.names_one_of(tags)) && !self.none_of.names_one_of(tags)
    }

    /// Looks for tags that no attack has. What has to be told of those that the environment names.
    ///
    /// # Errors
    ///
    /// `unknown_tag` where the command line names one.
    pub(super) fn check<'a>(&self, all: impl IntoIterator<Item = &'a [&'a str]>) -> Result<Vec<String>> {
        let known: BTreeSet<&str> = all.into_iter().flatten().copied().collect();
        let (mut wrong, mut told) = (Vec::new(), Vec::new());
        for (named, argument) in [(&self.any_of, "--tag"), (&self.none_of, "--skip-tag")] {
            let of_whom = if named.variable.is_none() { &mut wrong } else { &mut told };
            of_whom.extend(named.unknown(argument, &known));
        }
        if wrong.is_empty() { Ok(told) } else { Err(Error::redroom("unknown_tag", wrong.join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(tags: &[&str]) -> Named {
        Named::new(tags.iter().map(|tag| (*tag).to_owned()).collect(), "REDROOM_TAGS", None)
    }

    fn tags(any_of: &[&str], none_of: &[&str]) -> Tags {
        Tags { any_of: named(any_of), none_of: named(none_of) }
    }

    #[test]
    fn one_of_the_tags_lets_through_and_one_to_be_skipped_does_not() {
        for (any_of, none_of, attack, let_through) in [
            (&[][..], &[][..], &[][..], true),
            (&["dns"], &[], &[], false),
            (&["dns"], &[], &["dns", "slow"], true),
            (&["dns", "web"], &[], &["web"], true),
            (&["dn"], &[], &["dns"], false),
            (&[], &["slow"], &["dns"], true),
            (&[], &["slow"], &["dns", "slow"], false),
            (&["dns"], &["slow"], &["dns", "slow"], false),
        ] {
            assert_eq!(tags(any_of, none_of).let_through(attack), let_through, "{any_of:?} {none_of:?} {attack:?}");
        }
    }

    #[test]
    fn the_environment_counts_where_the_command_line_says_nothing() {
        let of = |given: &[&str], value| {
            Named::new(given.iter().map(|tag| (*tag).to_owned()).collect(), "REDROOM_TAGS", value)
        };
        assert_eq!(of(&[], Some("dns, web,,slow")).tags, ["dns", "web", "slow"]);
        assert_eq!(of(&["x"], Some("dns")).tags, ["x"]);
        assert!(of(&[], Some(" ")).tags.is_empty() && of(&[], None).tags.is_empty());
    }

    #[test]
    fn a_tag_that_no_attack_has_is_refused_with_the_nearest_one_or_only_told() {
        let attacks: [&[&str]; 3] = [&["dns", "slow"], &[], &["exfiltration"]];
        assert_eq!(tags(&["dns"], &["slow"]).check(attacks).unwrap(), [""; 0]);
        let error = tags(&["dsn", "dns"], &["fast"]).check(attacks).unwrap_err();
        assert_eq!(error.code(), "unknown_tag");
        let lines: Vec<&str> = error.detail().lines().collect();
        assert_eq!(
            lines,
            [
                "--tag: no attack here has the tag `dsn`; did you mean `dns`?",
                "--skip-tag: no attack here has the tag `fast`; there are dns, exfiltration, slow",
            ]
        );
        let any_of = Named::new(Vec::new(), "REDROOM_TAGS", Some("dsn"));
        let told = Tags { any_of, none_of: Named::default() }.check(attacks).unwrap();
        assert_eq!(told, ["REDROOM_TAGS: no attack here has the tag `dsn`; did you mean `dns`?"]);
        let none: [&[&str]; 1] = [&[]];
        assert!(tags(&["dns"], &[]).check(none).unwrap_err().detail().ends_with("has the tag `dns`; none has any"));
    }
}
