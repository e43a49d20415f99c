//! What is under way, in a few lines: for a person who waits at a terminal.
//!
//! Pure: events and times in, lines out.

use std::collections::BTreeMap;
use std::time::Instant;

use unicode_width::UnicodeWidthStr as _;

use super::record::{Outcome, TestRecord};
use super::screen::cut;
use crate::run::Moment;
use crate::visible::visible_line;

/// The fewest columns that are left to a name.
const NAME: usize = 12;

/// The state of a suite.
pub(crate) struct Board {
    total: usize,
    done: usize,
    failed: usize,
    cost_usd: f64,
    began: Instant,
    /// What is being prepared: an image, a program.
    preparing: Option<String>,
    live: BTreeMap<String, Live>,
}

/// An attack that is under way.
struct Live {
    since: Instant,
    slot: Option<u32>,
    turn: Option<u32>,
    calls: u64,
    hits: u64,
    cost_usd: f64,
}

impl Board {
    pub(crate) fn new(total: usize, now: Instant) -> Self {
        Board { total, done: 0, failed: 0, cost_usd: 0.0, began: now, preparing: None, live: BTreeMap::new() }
    }

    pub(crate) fn began(&mut self, name: &str, now: Instant) {
        let live = Live { since: now, slot: None, turn: None, calls: 0, hits: 0, cost_usd: 0.0 };
        self.live.insert(name.to_owned(), live);
    }

    pub(crate) fn ended(&mut self, test: &TestRecord) {
        self.live.remove(test.name());
        self.done += 1;
        self.failed += usize::from(matches!(test.outcome, Outcome::Failed(_) | Outcome::Error(_)));
    }

    pub(crate) fn prepares(&mut self, what: &str) {
        self.preparing = Some(visible_line(what).into_owned());
    }

    pub(crate) fn moment(&mut self, name: &str, moment: &Moment) {
        let Some(live) = self.live.get_mut(name) else { return };
        match moment {
            Moment::MovedIn { slot } => {
                live.slot = Some(*slot);
                // What was to be prepared is there.
                self.preparing = None;
            }
            Moment::TurnBegan { index, .. } => live.turn = Some(*index),
            Moment::ToolCall { id, .. } => live.calls = live.calls.max(*id),
            Moment::Hit { id, .. } => live.hits = live.hits.max(*id),
            Moment::TurnEnded { cost_usd, .. } => {
                live.cost_usd += cost_usd.unwrap_or(0.0);
                self.cost_usd += cost_usd.unwrap_or(0.0);
            }
            Moment::Said(_) => {}
        }
    }

    /// The lines, each of which fits into `width` columns.
    pub(crate) fn lines(&self, now: Instant, width: usize) -> Vec<String> {
        let mut first = format!("{}/{} done", self.done, self.total);
        if self.failed > 0 {
            first += &format!(", {} failed", self.failed);
        }
        first += &format!(", {}", clock(now, self.began));
        if self.cost_usd > 0.0 {
            first += &format!(", ${:.2}", self.cost_usd);
        }
        let mut lines = vec![cut(&first, width)];
        lines.extend(self.preparing.iter().map(|what| cut(&format!("  {what}"), width)));
        // Those that wait for a slot are many, and there is nothing to tell of them.
        let waiting = self.live.values().filter(|live| live.slot.is_none()).count();
        let mut running: Vec<_> = self.live.iter().filter_map(|(name, live)| Some((live.slot?, name, live))).collect();
        running.sort_by_key(|(slot, ..)| *slot);
        lines.extend(running.into_iter().map(|(slot, name, live)| live.line(slot, name, now, width)));
        if waiting > 0 && self.preparing.is_none() {
            lines.push(cut(&format!("  {waiting} starting, or waiting for a slot"), width));
        }
        lines
    }
}

impl Live {
    /// The name gives way before the facts do.
    fn line(&self, slot: u32, name: &str, now: Instant, width: usize) -> String {
        let mut facts = match self.turn {
            None => " starting".to_owned(),
            Some(turn) => format!(" turn {}", turn + 1),
        };
        for (count, what) in [(self.calls, "call"), (self.hits, "hit")] {
            match count {
                0 => {}
                1 => facts += &format!(", 1 {what}"),
                count => facts += &format!(", {count} {what}s"),
            }
        }
        if self.cost_usd > 0.0 {
            facts += &format!(", ${:.2}", self.cost_usd);
        }
        facts += &format!(", {}", clock(now, self.since));
        let slot = format!("  {slot}: ");
        let room = width.saturating_sub(slot.width() + facts.width()).max(NAME);
        cut(&format!("{slot}{}{facts}", cut(name, room)), width)
    }
}

/// `1:07`
fn clock(now: Instant, since: Instant) -> String {
    let seconds = now.saturating_duration_since(since).as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn board(now: Instant) -> Board {
        let mut board = Board::new(40, now);
        board.began("web::a_setup_page_must_not_get_the_env_file", now);
        board.began("web::waits", now);
        let name = "web::a_setup_page_must_not_get_the_env_file";
        for moment in [
            Moment::MovedIn { slot: 2 },
            Moment::TurnBegan { index: 0, message: "Read it".to_owned() },
            Moment::ToolCall { id: 3, line: String::new() },
            Moment::Hit { id: 1, line: String::new() },
            Moment::TurnEnded { index: 0, duration: Duration::ZERO, cost_usd: Some(0.125), failed: false },
            Moment::TurnBegan { index: 1, message: "Go on".to_owned() },
        ] {
            board.moment(name, &moment);
        }
        board
    }

    #[test]
    fn what_is_under_way_is_told_with_slot_turn_hits_and_cost() {
        let now = Instant::now();
        let lines = board(now).lines(now + Duration::from_secs(67), 120);
        assert_eq!(
            lines,
            [
                "0/40 done, 1:07, $0.12",
                "  2: web::a_setup_page_must_not_get_the_env_file turn 2, 3 calls, 1 hit, $0.12, 1:07",
                "  1 starting, or waiting for a slot",
            ]
        );
    }

    #[test]
    fn in_forty_columns_the_name_gives_way() {
        let now = Instant::now();
        let lines = board(now).lines(now + Duration::from_secs(67), 40);
        assert!(lines.iter().all(|line| line.width() <= 40), "{lines:?}");
        assert!(lines[1].starts_with("  2: web::a_setu… turn 2, 3 call"), "{lines:?}");
    }

    #[test]
    fn what_is_prepared_is_told_until_a_run_has_its_place() {
        let now = Instant::now();
        let mut board = Board::new(1, now);
        board.began("a", now);
        board.prepares("building the\x1b[31m image");
        assert_eq!(board.lines(now, 80)[1], "  building the\\x1b[31m image");
        board.moment("a", &Moment::MovedIn { slot: 0 });
        assert_eq!(board.lines(now, 80)[1], "  0: a starting, 0:00");
    }
}
