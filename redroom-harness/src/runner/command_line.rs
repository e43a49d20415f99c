//! The command line of a suite: libtest-mimic's arguments, and what libtest does beyond them: it takes several filters, and
//! ends with its own code where it is told something that it does not know.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use libtest_mimic::{Arguments, Trial};

/// What was asked for.
#[derive(Debug)]
pub(super) struct CommandLine {
    arguments: Arguments,
    /// The filters after the first.
    more_filters: Vec<String>,
}

/// The name of the arguments after the first filter.
const MORE: &str = "more_filters";

impl CommandLine {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// The code to end with: of a mistake, or of a word of help; both have been printed.
    pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        read(words).map_err(|told| {
            // Where nobody reads it any more, there is nobody to tell.
            let _ = told.print();
            if told.use_stderr() { ExitCode::from(super::FAILED) } else { ExitCode::SUCCESS }
        })
    }

    /// The arguments that let the same of these tests through as all filters together: libtest-mimic knows only one.
    pub(super) fn for_tests(self, tests: &[Trial]) -> Arguments {
        let CommandLine { mut arguments, more_filters } = self;
        if more_filters.is_empty() {
            return arguments;
        }
        let filters = arguments.filter.iter().cloned().chain(more_filters);
        let each: Vec<Arguments> =
            filters.map(|filter| Arguments { filter: Some(filter), ..arguments.clone() }).collect();
        let left_out = tests.iter().filter(|test| each.iter().all(|alone| alone.is_filtered_out(test)));
        arguments.skip = left_out.map(|test| test.name().to_owned()).collect();
        // The names stand for themselves now, and no two tests have the same.
        arguments.exact = true;
        arguments.filter = None;
        arguments
    }
}

fn read(words: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    let matches = command().try_get_matches_from(words)?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    Ok(CommandLine { arguments, more_filters: more_filters(&matches) })
}

fn command() -> Command {
    let more = Arg::new(MORE).value_name("FILTER").action(ArgAction::Append).num_args(0..).hide(true);
    Arguments::command().arg(more.help("More filters: what contains one of them is run."))
}

fn more_filters(matches: &ArgMatches) -> Vec<String> {
    matches.get_many(MORE).into_iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: [(&str, bool); 4] =
        [("web::page", false), ("web::pager", false), ("dns::name", false), ("dns::old", true)];

    fn let_through(words: &[&str]) -> Vec<&'static str> {
        let line = read(["suite"].iter().chain(words).map(OsString::from)).unwrap();
        let trial = |(name, ignored): (&str, bool)| Trial::test(name, || Ok(())).with_ignored_flag(ignored);
        let tests = TESTS.map(trial);
        let arguments = line.for_tests(&tests);
        let names = TESTS.iter().zip(&tests).filter(|(_, test)| !arguments.is_filtered_out(test));
        names.map(|((name, _), _)| *name).collect()
    }

    #[test]
    fn a_test_is_let_through_that_matches_any_of_the_filters() {
        for (words, expected) in [
            (&[][..], &["web::page", "web::pager", "dns::name", "dns::old"][..]),
            (&["page"], &["web::page", "web::pager"]),
            (&["page", "name"], &["web::page", "web::pager", "dns::name"]),
            (&["web::page", "dns", "nothing"], &["web::page", "web::pager", "dns::name", "dns::old"]),
            (&["web::page", "dns::name", "--exact"], &["web::page", "dns::name"]),
            (&["--exact", "web::page", "--test-threads", "3", "dns"], &["web::page"]),
            (&["page", "dns", "--skip", "pager", "--skip=name"], &["web::page", "dns::old"]),
            (&["web::page", "dns::name", "--skip", "dns::name", "--exact"], &["web::page"]),
            (&["web", "dns", "--ignored"], &["dns::old"]),
            (&["nothing", "at all"], &[]),
        ] {
            assert_eq!(let_through(words), expected, "{words:?}");
        }
    }
}
