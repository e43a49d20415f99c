//! The command line of a suite: everything that libtest accepts, with its meaning, and what only redroom has.
//!
//! Words in, what was asked for out: nothing here knows of attacks, and of the environment only what chooses tests is read: libtest's own
//! variables, and those of tags.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::order::Shuffle;
use super::tags::{Named, Tags, VARIABLES};
use crate::report::format::Times;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) selection: Selection,
    pub(super) list: bool,
    pub(super) fail_fast: bool,
    /// How many tests this process runs at once.
    pub(super) threads: Option<NonZeroUsize>,
    /// The same from `RUST_TEST_THREADS`, which only lowers what is set elsewhere.
    pub(super) most_threads: Option<NonZeroUsize>,
    pub(super) parallel: Option<u32>,
    pub(super) backend: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) junit: Option<PathBuf>,
    pub(super) logfile: Option<PathBuf>,
    pub(super) shuffle: Option<Shuffle>,
    pub(super) display: Display,
}

/// Which tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) filters: Vec<String>,
    pub(super) skip: Vec<String>,
    pub(super) exact: bool,
    pub(super) tags: Tags,
    pub(super) ignored: Ignored,
    pub(super) exclude_should_panic: bool,
    /// Benchmarks were asked for, and there are none: every test is passed over.
    pub(super) benchmarks_only: bool,
}

/// What becomes of tests that are marked as ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ignored {
    #[default]
    PassedOver,
    Included,
    Only,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Display {
    pub(super) format: Format,
    pub(super) color: Color,
    pub(super) quiet: bool,
    pub(super) show_output: bool,
    pub(super) no_capture: bool,
    pub(super) report_time: bool,
    /// A test that takes longer than [`times`](Self::times) allow fails.
    pub(super) ensure_time: bool,
    pub(super) times: Option<Times>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Pretty,
    Terse,
    Json,
    Junit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl Arguments {
    /// Reads the command line of this process and libtest's environment.
    ///
    /// # Errors
    ///
    /// The code to end with: of a mistake, or of a word of help; both have been printed.
    pub(super) fn of_process() -> Result<Self, ExitCode> {
        let read = Self::parse(std::env::args_os(), |name| std::env::var_os(name));
        read.map_err(|mut told| {
            // No attack has such a name: to pass it as one is no advice.
            if told.kind() == ErrorKind::UnknownArgument {
                told.remove(ContextKind::Suggested);
            }
            // Where nobody reads it any more, there is nobody to tell.
            let _ = told.print();
            if told.use_stderr() { ExitCode::from(super::FAILED) } else { ExitCode::SUCCESS }
        })
    }

    fn parse(
        words: impl IntoIterator<Item = OsString>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, clap::Error> {
        let mut command = command();
        let found = command.try_get_matches_from_mut(words)?;
        let on = |name: &str| found.get_flag(name);
        let set = |name: &str| variable(name).filter(|value| !value.is_empty() && value != "0");
        let number = |name: &'static str| {
            variable(name).map(|value| value.to_str().and_then(|value| value.parse::<u64>().ok()).ok_or(value))
        };
        let mut wrong = |kind, message: String| command.error(kind, message);
        let most_threads = match number("RUST_TEST_THREADS") {
            None => None,
            Some(Ok(threads @ 1..)) => NonZeroUsize::new(usize::try_from(threads).unwrap_or(usize::MAX)),
            Some(other) => {
                let value = other.map_or_else(|value| value.to_string_lossy().into_owned(), |zero| zero.to_string());
                let message = format!("RUST_TEST_THREADS is `{value}`, should be a positive integer.");
                return Err(wrong(ErrorKind::InvalidValue, message));
            }
        };
        let [any_of, none_of] = VARIABLES.map(|name| (name, variable(name)));
        for (name, value) in [&any_of, &none_of] {
            if value.as_ref().is_some_and(|value| value.to_str().is_none()) {
                return Err(wrong(
                    ErrorKind::InvalidValue,
                    format!("{name} is not text, should be tags such as `dns,slow`."),
                ));
            }
        }
        let tags = |argument, (name, value): (&'static str, Option<OsString>)| {
            Named::new(texts(&found, argument), name, value.as_deref().and_then(OsStr::to_str))
        };
        let tags = Tags { any_of: tags("tag", any_of), none_of: tags("skip-tag", none_of) };
        let seed = match (found.get_one::<u64>("shuffle-seed"), number("RUST_TEST_SHUFFLE_SEED")) {
            (Some(seed), _) => Some(Shuffle::By(*seed)),
            (None, Some(Ok(seed))) => Some(Shuffle::By(seed)),
            (None, Some(Err(value))) => {
                let value = value.to_string_lossy();
                let message = format!("RUST_TEST_SHUFFLE_SEED is `{value}`, should be a number.");
                return Err(wrong(ErrorKind::InvalidValue, message));
            }
            (None, None) => None,
        };
        let times = match variable("RUST_TEST_TIME_INTEGRATION") {
            None => None,
            Some(value) => match value.to_str().and_then(Times::parse) {
                Some(times) => Some(times),
                None => {
                    let value = value.to_string_lossy();
                    let message = format!(
                        "RUST_TEST_TIME_INTEGRATION is `{value}`, should be two numbers of milliseconds such as `500,2000`."
                    );
                    return Err(wrong(ErrorKind::InvalidValue, message));
                }
            },
        };
        let by_chance = (on("shuffle") || set("RUST_TEST_SHUFFLE").is_some()).then_some(Shuffle::ByChance);
        Ok(Arguments {
            selection: Selection {
                filters: texts(&found, "filters"),
                skip: texts(&found, "skip"),
                exact: on("exact"),
                tags,
                ignored: match (on("ignored"), on("include-ignored")) {
                    (true, _) => Ignored::Only,
                    (_, true) => Ignored::Included,
                    _ => Ignored::PassedOver,
                },
                exclude_should_panic: on("exclude-should-panic"),
                benchmarks_only: on("bench") && !on("test"),
            },
            list: on("list"),
            fail_fast: on("fail-fast"),
            threads: found
                .get_one::<u64>("test-threads")
                .and_then(|threads| NonZeroUsize::new(usize::try_from(*threads).unwrap_or(usize::MAX))),
            most_threads,
            parallel: found.get_one("parallel").copied(),
            backend: found.get_one("backend").cloned(),
            profile: found.get_one("profile").cloned(),
            junit: found.get_one("junit").cloned(),
            logfile: found.get_one("logfile").cloned(),
            shuffle: seed.or(by_chance),
            display: Display {
                format: match found.get_one::<String>("format").map(String::as_str) {
                    Some("terse") => Format::Terse,
                    Some("json") => Format::Json,
                    Some("junit") => Format::Junit,
                    Some(_) => Format::Pretty,
                    None if on("quiet") => Format::Terse,
                    None => Format::Pretty,
                },
                color: match found.get_one::<String>("color").map(String::as_str) {
                    Some("always") => Color::Always,
                    Some("never") => Color::Never,
                    _ => Color::Auto,
                },
                quiet: on("quiet"),
                show_output: on("show-output"),
                no_capture: on("no-capture") || on("nocapture") || set("RUST_TEST_NOCAPTURE").is_some(),
                report_time: on("report-time"),
                ensure_time: on("ensure-time"),
                times,
            },
        })
    }
}

fn texts(found: &ArgMatches, name: &str) -> Vec<String> {
    found.get_many(name).into_iter().flatten().cloned().collect()
}

const AFTER_HELP: &str = "\
An attack is run whose name contains one of the filters, or is one of them with --exact.

Exit codes:
    0          every attack that was run has passed, or was passed over
    101        an attack failed, or the command line is wrong
    2          no attack failed, but some could not be run: settings, engine, image, agent, sidecar
    130, 143   interrupted (SIGINT, SIGTERM); everything that was made is removed first

What else can be set stands in redroom.toml and in variables named REDROOM_…: see the page `settings` of the documentation.";

fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).allow_hyphen_values(true).help(help)
    };
    let path = |name, help| value(name, "FILE", help).value_parser(value_parser!(PathBuf));
    Command::new("redroom")
        .override_usage("[OPTIONS] [FILTERS...]")
        .after_help(AFTER_HELP)
        .disable_version_flag(true)
        .args([
            Arg::new("filters")
                .value_name("FILTERS")
                .num_args(0..)
                .action(ArgAction::Append)
                .help("Which attacks to run"),
            flag("include-ignored", "Run ignored attacks, too"),
            flag("ignored", "Run ignored attacks only").conflicts_with("include-ignored"),
            flag("exclude-should-panic", "Leave out attacks that are marked as should_panic"),
            value("skip", "FILTER", "Leave out attacks whose names contain FILTER; can be given several times")
                .action(ArgAction::Append),
            flag("exact", "A filter is a whole name, and so is one of --skip"),
            value(
                "tag",
                "NAME",
                "Run attacks that have this tag; can be given several times, and one of them is enough",
            )
            .action(ArgAction::Append),
            value("skip-tag", "NAME", "Leave out attacks that have this tag; can be given several times")
                .action(ArgAction::Append),
            flag("list", "Print the names, and start nothing"),
            flag("fail-fast", "Begin no other attack after the first that fails"),
            value("test-threads", "N", "How many attacks this process runs at once; sets --parallel, too")
                .value_parser(value_parser!(u64).range(1..)),
            value("parallel", "N", "How many attacks may be live at once, over all processes of this user: 1 to 245")
                .value_parser(value_parser!(u32)),
            value("backend", "NAME", "auto, docker or jail"),
            value("profile", "NAME", "Lay [profile.NAME] of redroom.toml over the rest of it"),
            flag("shuffle", "Run in random order; the seed is printed"),
            value("shuffle-seed", "SEED", "Run in the order that SEED gives").value_parser(value_parser!(u64)),
            flag("no-capture", "Show what the agents do while they do it"),
            flag("nocapture", "The same").hide(true),
            flag("show-output", "Tell of attacks that pass what is told of those that fail"),
            flag("quiet", "One character for each attack, and no word of progress").short('q'),
            value(
                "color",
                "WHEN",
                "auto (where standard output is a terminal and NO_COLOR is not set), always or never",
            )
            .value_parser(["auto", "always", "never"]),
            value("format", "FORMAT", "pretty, terse, json or junit")
                .value_parser(["pretty", "terse", "json", "junit"]),
            path("junit", "Write a JUnit report, too; several processes of one run write into one file"),
            path("logfile", "Write a line for each attack, too"),
            flag("report-time", "Show how long each attack took"),
            flag(
                "ensure-time",
                "An attack fails that takes longer than the second number of RUST_TEST_TIME_INTEGRATION",
            ),
            Arg::new("unstable")
                .short('Z')
                .value_name("unstable-options")
                .value_parser(["unstable-options"])
                .action(ArgAction::Append)
                .help("Taken and not needed: everything here is stable"),
            flag("test", "Taken and not needed: attacks are tests"),
            flag("bench", "Run benchmarks, of which there are none"),
            flag("force-run-in-process", "Taken and not needed").hide(true),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        parse_with(words, &[])
    }

    fn parse_with(words: &[&str], environment: &[(&str, &str)]) -> Result<Arguments, clap::Error> {
        let words = ["suite"].iter().chain(words).map(OsString::from);
        Arguments::parse(words, |asked| {
            environment.iter().find(|(name, _)| *name == asked).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_argument_of_libtest_is_understood() {
        let all = parse(&[
            "a",
            "--exact",
            "b::c",
            "--skip",
            "x",
            "--skip=-y",
            "--ignored",
            "--list",
            "--format",
            "terse",
            "--color=never",
            "--test-threads=3",
            "--no-capture",
            "--nocapture",
            "--show-output",
            "-q",
            "--logfile",
            "log",
            "--shuffle-seed",
            "7",
            "--report-time",
            "--ensure-time",
            "--fail-fast",
            "-Z",
            "unstable-options",
            "-Zunstable-options",
            "--test",
            "--exclude-should-panic",
            "--force-run-in-process",
        ])
        .unwrap();
        let selection = &all.selection;
        assert_eq!(
            (&selection.filters[..], &selection.skip[..]),
            (&["a", "b::c"].map(String::from)[..], &["x", "-y"].map(String::from)[..])
        );
        assert!(selection.exact && selection.ignored == Ignored::Only && selection.exclude_should_panic);
        assert!(all.list && all.fail_fast && all.threads.is_some_and(|threads| threads.get() == 3));
        assert_eq!((all.shuffle, all.logfile), (Some(Shuffle::By(7)), Some(PathBuf::from("log"))));
        let display = all.display;
        assert!(
            display.no_capture && display.show_output && display.quiet && display.report_time && display.ensure_time
        );
        assert_eq!((display.format, display.color), (Format::Terse, Color::Never));
    }

    #[test]
    fn what_only_redroom_has_is_understood() {
        let own = ["--parallel", "8", "--backend", "jail", "--profile", "ci", "--junit", "out/junit.xml"];
        let own = parse(&own).unwrap();
        assert_eq!(own.profile.as_deref(), Some("ci"));
        assert_eq!((own.parallel, own.backend.as_deref()), (Some(8), Some("jail")));
        assert_eq!(own.junit, Some(PathBuf::from("out/junit.xml")));
        let tags = |words, set: &[(&str, &str)]| parse_with(words, set).unwrap().selection.tags;
        let given = tags(&["--tag", "dns", "--tag=web", "--skip-tag", "slow"], &[("REDROOM_TAGS", "x")]);
        let any_of = Named::new(vec!["dns".to_owned(), "web".to_owned()], VARIABLES[0], None);
        assert_eq!(given, Tags { any_of, none_of: Named::new(vec!["slow".to_owned()], VARIABLES[1], None) });
        let set = tags(&[], &[("REDROOM_TAGS", "dns,web"), ("REDROOM_SKIP_TAGS", "slow")]);
        assert!(set.let_through(&["web"]) && !set.let_through(&["web", "slow"]) && !set.let_through(&["x"]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, named) in [
            (&["--no-such-flag"][..], "--no-such-flag"),
            (&["--test-threads", "0"], "--test-threads"),
            (&["--test-threads", "many"], "--test-threads"),
            (&["--parallel", "many"], "--parallel"),
            (&["--format", "xml"], "--format"),
            (&["--ignored", "--include-ignored"], "--include-ignored"),
            (&["--exact", "--exact"], "--exact"),
            (&["--skip"], "--skip"),
            (&["-Z", "other-options"], "unstable-options"),
        ] {
            let told = parse(words).unwrap_err();
            assert!(told.use_stderr() && told.to_string().contains(named), "{words:?}: {told}");
        }
        let told = parse_with(&[], &[("RUST_TEST_THREADS", "0")]).unwrap_err().to_string();
        assert!(told.contains("RUST_TEST_THREADS is `0`"), "{told}");
    }

    #[test]
    fn the_environment_of_libtest_counts_and_the_command_line_is_stronger() {
        let set = [("RUST_TEST_THREADS", "2"), ("RUST_TEST_NOCAPTURE", "1"), ("RUST_TEST_SHUFFLE_SEED", "9")];
        let read = parse_with(&["--shuffle-seed", "4"], &set).unwrap();
        assert!(read.display.no_capture && read.most_threads.is_some_and(|threads| threads.get() == 2));
        assert_eq!(read.shuffle, Some(Shuffle::By(4)));
        assert!(!parse_with(&[], &[("RUST_TEST_NOCAPTURE", "0")]).unwrap().display.no_capture);
    }
}
