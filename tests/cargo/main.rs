//! A suite in the hands of those who know `cargo test` and `cargo nextest run`: the same words mean the same, and what happened
//! is told well.
//!
//! This executable is both: the tests, and (when the environment says so) the suite that they start.

#[allow(dead_code, reason = "shared with the suite `manners`, which asks more of it")]
#[path = "../manners/engine.rs"]
mod engine;

mod command_lines;
mod fixture;
mod nextest;
mod place;
mod reports;
mod settings;
mod telling;
mod terminal;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

/// Trials named as `#[test]` would name them.
macro_rules! trials {
    ($make:ident: $($module:ident::{$($name:ident),+ $(,)?}),+ $(,)?) => {
        [$($($make(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),+),+]
    };
}

fn main() -> ExitCode {
    redroom::init();
    if place::is_asked_for() {
        return fixture::run();
    }
    let mut all = Vec::from(trials!(plain:
        command_lines::{
            every_command_line_means_what_it_means_to_libtest,
            an_order_can_be_had_again,
            attacks_are_chosen_by_their_tags,
        },
        telling::{
            a_mistake_is_told_and_is_no_panic,
        },
    ));
    all.extend(trials!(with_engine:
        telling::{
            a_leak_is_a_short_story_that_is_told_once,
            a_trace_has_the_tests_own_frames_and_no_others,
            what_an_agent_does_is_shown_while_it_does_it,
            nothing_else_begins_after_a_failure_that_was_to_be_the_last,
            what_could_not_be_run_has_a_code_of_its_own,
        },
        terminal::{
            what_is_under_way_is_shown_on_a_terminal_in_forty_columns,
        },
        reports::{
            several_processes_make_one_report_without_what_was_planted,
            a_report_is_asked_for_in_every_way,
            tags_stand_in_reports,
            a_job_gets_one_table,
        },
    ));
    all.extend(trials!(with_schemas: reports::{jenkins_takes_the_report}));
    all.extend(trials!(with_python: settings::{the_schema_and_the_suite_take_the_same_files}));
    all.extend(trials!(with_nextest:
        nextest::{
            each_attack_is_listed_and_run_by_itself,
            the_environment_chooses_attacks_by_their_tags,
            a_process_for_each_attack_does_not_ask_the_engine_each_time,
            no_more_runs_live_than_may_over_all_processes,
            an_attack_that_is_tried_again_says_which_attempt_it_is,
            shards_make_one_report,
            an_interrupted_run_is_gone_within_five_seconds,
        },
    ));
    let long = trials!(with_nextest: nextest::{two_hundred_attacks_ask_the_engine_no_more_than_one});
    all.extend(long.map(|trial| trial.with_ignored_flag(true)));
    libtest_mimic::run(&Arguments::from_args(), all).exit_code()
}

fn plain(name: &'static str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// A trial that is ignored where no engine answers, unless `REDROOM_REQUIRE` names it.
fn with_engine(name: &'static str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        let required = std::env::var("REDROOM_REQUIRE").is_ok_and(|required| required.contains("docker"));
        if !required && !engine::answers() {
            return Ok(Completion::ignored_with("no Docker engine answers"));
        }
        test();
        Ok(Completion::Completed)
    })
}

/// The same, where a report can be held against a schema, too.
fn with_schemas(name: &'static str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        if !reports::schemas_can_be_checked() {
            return Ok(Completion::ignored_with(
                "install libxml2-utils, and name the file of the schema in REDROOM_TEST_JUNIT_SCHEMA",
            ));
        }
        if !engine::answers() {
            return Ok(Completion::ignored_with("no Docker engine answers"));
        }
        test();
        Ok(Completion::Completed)
    })
}

/// A trial that is ignored where nothing can hold settings against their schema.
fn with_python(name: &'static str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        if !settings::schemas_can_be_checked() {
            return Ok(Completion::ignored_with("install Python 3.11 or newer and its package jsonschema"));
        }
        test();
        Ok(Completion::Completed)
    })
}

/// A trial that is ignored where no engine answers or nextest is not there.
fn with_nextest(name: &'static str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        if !nextest::is_there() {
            return Ok(Completion::ignored_with("no cargo-nextest: install it, or name it in REDROOM_TEST_NEXTEST"));
        }
        if !engine::answers() {
            return Ok(Completion::ignored_with("no Docker engine answers"));
        }
        test();
        Ok(Completion::Completed)
    })
}
