//! Standard output and standard error as one screen: what is printed for good goes up, and what is under way stands below it,
//! where there is a terminal.
//!
//! Knows nothing of tests. Where nobody reads any more, nobody is told; nothing here panics.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Where everything is printed. Every method may be called from any thread.
pub(crate) struct Screen(Mutex<Inner>);

struct Inner {
    out: Output,
    err: Output,
    log: Option<Output>,
    /// How wide the terminal is that standard error is; `None` where it is none, or nothing is to be shown there.
    width: Option<fn() -> usize>,
    /// What stands below, as it is to be; and how many lines of it are drawn.
    status: Vec<String>,
    drawn: usize,
}

/// A stream that is written to as long as somebody reads it.
struct Output {
    to: Box<dyn Write + Send>,
    ended: Option<io::Error>,
}

impl Screen {
    /// The process's own. `live` allows a status where standard error is a terminal.
    pub(crate) fn of_process(live: bool) -> Self {
        let live = live && io::stderr().is_terminal() && !is_dumb();
        Self::new(Box::new(io::stdout()), Box::new(io::stderr()), live.then_some(terminal_width as fn() -> usize))
    }

    fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, width: Option<fn() -> usize>) -> Self {
        Screen(Mutex::new(Inner {
            out: Output::to(out),
            err: Output::to(err),
            log: None,
            width,
            status: Vec::new(),
            drawn: 0,
        }))
    }

    /// Writes what is logged to a file, too.
    pub(crate) fn log_to(&self, path: &Path) -> io::Result<()> {
        self.inner().log = Some(Output::to(Box::new(File::create(path)?)));
        Ok(())
    }

    /// To standard output, as it is.
    pub(crate) fn print(&self, text: &str) {
        self.inner().above_status(|inner| inner.out.write(text));
    }

    /// A line on standard error.
    pub(crate) fn note(&self, line: &str) {
        self.inner().above_status(|inner| inner.err.write(&format!("redroom: {line}\n")));
    }

    /// A line in the log, if there is one.
    pub(crate) fn log(&self, line: &str) {
        if let Some(log) = &mut self.inner().log {
            log.write(&format!("{line}\n"));
        }
    }

    /// Whether a status is shown at all.
    pub(crate) fn shows_status(&self) -> bool {
        self.inner().width.is_some()
    }

    /// What stands below from now on: nothing, or lines that are cut to the terminal's width.
    pub(crate) fn status(&self, lines: impl FnOnce(usize) -> Vec<String>) {
        let mut inner = self.inner();
        let Some(width) = inner.width else { return };
        let lines = lines(width());
        if lines != inner.status || inner.drawn == 0 {
            inner.erase();
            inner.status = lines;
            inner.draw();
        }
    }

    /// What kept standard output from being printed, unless it was only that nobody reads it.
    pub(crate) fn failure(&self) -> Option<String> {
        let inner = self.inner();
        let ended = inner.out.ended.as_ref().filter(|error| error.kind() != ErrorKind::BrokenPipe);
        ended.map(ToString::to_string)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn above_status(&mut self, print: impl FnOnce(&mut Self)) {
        self.erase();
        print(self);
        self.draw();
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            // Up to the first line of it, then everything from there on.
            let up = format!("\r\x1b[{}A\x1b[J", self.drawn);
            self.err.write(&up);
            self.drawn = 0;
        }
    }

    fn draw(&mut self) {
        let Some(width) = self.width else { return };
        let width = width();
        let text: String = self.status.iter().map(|line| cut(line, width) + "\n").collect();
        self.drawn = self.status.len();
        if !text.is_empty() {
            self.err.write(&text);
        }
    }
}

impl Output {
    fn to(to: Box<dyn Write + Send>) -> Self {
        Output { to, ended: None }
    }

    fn write(&mut self, text: &str) {
        if self.ended.is_none()
            && let Err(error) = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush())
        {
            self.ended = Some(error);
        }
    }
}

/// A terminal that can do nothing but print.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Whether colours are for whoever reads standard output.
pub(crate) fn wants_color() -> bool {
    io::stdout().is_terminal() && !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(80, |size| usize::from(size.ws_col)).max(1)
}

/// The text, or as much of it as fits on a line that is `width` columns wide, with an ellipsis for the rest.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut columns = 0;
    let fits = |character: &char| {
        columns += character.width().unwrap_or(0);
        columns < width
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_status_stands_below_what_is_printed() {
        let paper = Paper::default();
        let screen = Screen::new(Box::new(paper.clone()), Box::new(paper.clone()), Some(|| 10));
        screen.status(|_| vec!["slot 0 a very long name".to_owned(), "two".to_owned()]);
        screen.print("test a ... ok\n");
        screen.status(|_| Vec::new());
        let up = "\r\x1b[2A\x1b[J";
        let drawn = "slot 0 a …\ntwo\n";
        assert_eq!(paper.text(), format!("{drawn}{up}test a ... ok\n{drawn}{up}"));
    }

    #[test]
    fn without_a_terminal_nothing_but_text_is_printed() {
        let paper = Paper::default();
        let screen = Screen::new(Box::new(paper.clone()), Box::new(paper.clone()), None);
        screen.status(|_| vec!["one".to_owned()]);
        screen.print("a\n");
        screen.note("b");
        assert_eq!(paper.text(), "a\nredroom: b\n");
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is() {
        for (kind, fails) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let screen = Screen::new(Box::new(Broken(kind)), Box::new(Broken(kind)), None);
            screen.print("a");
            screen.print("b");
            screen.note("c");
            assert_eq!(screen.failure().is_some(), fails, "{kind}");
        }
    }

    #[test]
    fn a_line_is_cut_by_columns_not_by_letters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
    }
}
