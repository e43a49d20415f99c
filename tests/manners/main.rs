//! A suite as a process: what it prints, with which code it ends, and what it leaves behind, seen from outside.
//!
//! This executable is both: the tests, and (when the environment says so) the suite that they start.

#[path = "../asking/mod.rs"]
#[expect(dead_code, reason = "other suites use more of it")]
mod asking;
#[macro_use]
#[path = "../trials/mod.rs"]
mod trials;

mod absence;
mod adversity;
mod echo;
mod engine;
mod fixture;
mod hangs;
mod inside;
#[cfg(target_os = "linux")]
mod jails;
mod keys;
#[cfg(target_os = "linux")]
mod kin;
mod listing;
mod losses;
mod mistakes;
mod moments;
mod outcomes;
mod processes;
mod reports;
mod restarts;
mod signals;
mod suite;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use trials::{Need, needing, plain};

fn main() -> ExitCode {
    redroom::init();
    if suite::is_asked_for() {
        return fixture::run();
    }
    let mut all = Vec::from(trials!(plain:
        listing::{
            the_list_is_printed_without_engine_home_or_network,
            the_list_is_filtered_as_libtest_filters,
            a_list_that_nobody_reads_or_that_cannot_be_written_does_not_panic,
        },
        absence::{
            without_an_engine_attacks_fail_and_say_what_to_do,
            without_an_engine_attacks_can_be_ignored_unless_it_is_required,
            an_old_engine_is_refused_with_the_reason,
        },
        mistakes::{
            parallel_outside_its_range_is_refused_wherever_it_stands,
            a_broken_settings_file_is_refused_with_the_nearest_key,
            a_profile_is_chosen_by_flag_or_variable_and_refused_where_there_is_none,
            a_report_that_could_not_be_written_is_refused_before_anything_starts,
            an_unknown_flag_is_refused,
            a_variable_that_means_nothing_is_refused_with_the_nearest_one,
        },
        outcomes::{a_filter_that_matches_nothing_starts_nothing},
    ));
    all.extend(trials!(with_engine:
        outcomes::{
            outcomes_and_exit_codes_are_those_of_libtest,
            ignored_attacks_run_when_they_are_asked_for,
            a_suite_that_has_ended_gives_the_next_nothing_to_sweep,
            a_turn_that_is_left_behind_is_cut_short,
            a_leak_that_a_test_lets_pass_is_told,
            a_guard_that_nothing_asks_is_told_once,
            what_an_attack_may_have_overlooked_is_told,
        },
        mistakes::{
            what_is_planted_wrongly_is_one_clear_error_and_leaves_nothing,
            without_npm_the_agent_is_not_fetched_and_the_error_says_so,
            without_model_access_nothing_is_fetched_or_started_and_the_error_says_so_first,
        },
        reports::{the_report_counts_right_and_holds_no_planted_secret},
        keys::{keys_that_a_model_and_a_guard_say_back_are_nowhere},
        signals::{
            an_interrupted_suite_is_gone_within_five_seconds,
            an_interrupted_suite_that_nobody_listens_to_ends_all_the_same,
            a_suite_that_is_told_to_end_while_it_starts_leaves_nothing,
            a_killed_suite_runs_nothing_and_the_next_start_cleans_up,
        },
        losses::{
            a_killed_sidecar_ends_its_run_and_the_next_gets_a_new_one,
            an_engine_that_is_lost_ends_the_run_with_an_error,
            an_engine_that_is_lost_in_mid_collection_ends_the_run_with_an_error,
            an_engine_that_hangs_ends_the_run_with_an_error,
            an_engine_that_is_slow_is_waited_for,
        },
        hangs::{a_suite_that_hangs_is_gone_within_its_lease},
        moments::{a_suite_that_is_killed_at_any_call_leaves_nothing},
        adversity::{
            a_full_disk_is_told_and_never_passed_over,
            a_clock_that_jumps_cuts_no_run_short_and_leaves_none_over,
        },
        inside::{a_suite_runs_in_a_container_that_has_the_engine_s_socket},
        restarts::{
            an_engine_that_is_stopped_killed_or_frozen_in_mid_turn,
            an_engine_that_is_killed_or_frozen_in_mid_collection,
            an_engine_that_is_killed_while_it_builds_an_image,
        },
    ));
    all.extend(trials!(with_jail:
        hangs::{a_suite_that_hangs_in_a_jail_is_gone_within_its_lease},
        moments::{a_suite_that_is_killed_at_any_time_in_a_jail_leaves_nothing},
    ));
    #[cfg(target_os = "linux")]
    all.extend(trials!(with_jail:
        jails::{
            a_suite_that_ends_while_a_jail_is_made_leaves_nothing,
            a_suite_that_ends_in_mid_turn_leaves_nothing,
            a_suite_that_ends_while_evidence_is_taken_leaves_nothing,
            a_suite_whose_keepers_are_killed_loses_two_runs_and_no_more,
        },
    ));
    libtest_mimic::run(&Arguments::from_args(), all).exit_code()
}

const ENGINE: Need =
    Need { is_there: engine::answers, required_as: Some("docker"), otherwise: "no Docker engine answers" };
const JAIL: Need =
    Need { is_there: suite::jail_can_be_made, required_as: Some("jail"), otherwise: "no jail can be made here" };

fn with_jail(name: &'static str, test: fn()) -> Trial {
    needing(name, &[JAIL], test)
}

fn with_engine(name: &'static str, test: fn()) -> Trial {
    needing(name, &[ENGINE], test)
}
