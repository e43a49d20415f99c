//! A suite in the hands of those who know `cargo test` and `cargo nextest run`: the same words mean the same, and what happened
//! is told well.
//!
//! This executable is both: the tests, and (when the environment says so) the suite that they start.

#[allow(dead_code, reason = "shared with the suite `manners`, which asks more of it")]
#[path = "../manners/engine.rs"]
mod engine;
#[macro_use]
#[path = "../trials/mod.rs"]
mod trials;

mod command_lines;
mod fixture;
mod nextest;
mod place;
mod reports;
mod settings;
mod telling;
mod terminal;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use trials::{Need, needing, plain};

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

const ENGINE: Need =
    Need { is_there: engine::answers, required_as: Some("docker"), otherwise: "no Docker engine answers" };
const SCHEMA_OF_REPORTS: Need = Need {
    is_there: reports::schemas_can_be_checked,
    required_as: None,
    otherwise: "install libxml2-utils, and name the file of the schema in REDROOM_TEST_JUNIT_SCHEMA",
};
const SCHEMAS_OF_SETTINGS: Need = Need {
    is_there: settings::schemas_can_be_checked,
    required_as: None,
    otherwise: "install Python 3.11 or newer and its package jsonschema",
};
const NEXTEST: Need = Need {
    is_there: nextest::is_there,
    required_as: None,
    otherwise: "no cargo-nextest: install it, or name it in REDROOM_TEST_NEXTEST",
};

fn with_engine(name: &'static str, test: fn()) -> Trial {
    needing(name, &[ENGINE], test)
}

fn with_schemas(name: &'static str, test: fn()) -> Trial {
    needing(name, &[SCHEMA_OF_REPORTS, ENGINE], test)
}

fn with_python(name: &'static str, test: fn()) -> Trial {
    needing(name, &[SCHEMAS_OF_SETTINGS], test)
}

fn with_nextest(name: &'static str, test: fn()) -> Trial {
    needing(name, &[NEXTEST, ENGINE], test)
}
