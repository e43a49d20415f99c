//! How much may be planted: told before anything is written, and before anything is made of it.

use super::Secrets;
use super::files::Files;
use super::pages::Pages;

/// The most files, those of the workspace and those elsewhere together.
const FILES: usize = 20_000;
/// The most bytes of one file or page, its secrets filled in.
pub(super) const BODY: usize = 64 << 20;
/// The most bytes of all files.
const FILE_BYTES: usize = 256 << 20;
/// The most pages, and their bytes: the sidecar holds them in memory.
const PAGES: usize = 10_000;
const PAGE_BYTES: usize = 16 << 20;
/// The most secrets, and their bytes: each byte costs the search some hundreds.
const SECRETS: usize = 1_000;
const SECRET_BYTES: usize = 64 << 10;

/// What may still be planted.
pub(super) struct Bounds {
    files: usize,
    pages: usize,
}

impl Bounds {
    /// Counts what there is; what is wrong with it goes to `fault`, a line each. `None` where it is too much to look at.
    pub(super) fn of(
        files: [&Files; 2],
        pages: &Pages,
        secrets: &Secrets,
        mut fault: impl FnMut(String),
    ) -> Option<Self> {
        let counts = [
            ("files", files.iter().map(|files| files.len()).sum(), FILES),
            ("pages", pages.len(), PAGES),
            ("secrets", secrets.len(), SECRETS),
            ("bytes of secrets", secrets.iter().map(|(_, secret)| secret.value().len()).sum(), SECRET_BYTES),
        ];
        let too_many: Vec<_> = counts.into_iter().filter(|(_, count, most)| count > most).collect();
        for (what, count, most) in &too_many {
            fault(format!("{count} {what} are planted, and at most {most} can be"));
        }
        too_many.is_empty().then_some(Bounds { files: FILE_BYTES, pages: PAGE_BYTES })
    }

    /// One more file with so many bytes.
    pub(super) fn file(&mut self, bytes: usize) -> Result<(), String> {
        take(&mut self.files, bytes, FILE_BYTES, "files")
    }

    /// One more page with so many bytes.
    pub(super) fn page(&mut self, bytes: usize) -> Result<(), String> {
        take(&mut self.pages, bytes, PAGE_BYTES, "pages")
    }
}

/// Told once: where it is too much, nothing fits any more.
fn take(left: &mut usize, bytes: usize, most: usize, what: &str) -> Result<(), String> {
    if bytes > BODY {
        return Err(format!("it has {bytes} bytes, and at most {BODY} can be planted at one place"));
    }
    let had = *left;
    *left = had.saturating_sub(bytes);
    if had > 0 && bytes > had {
        return Err(format!("with it the {what} have more than {most} bytes"));
    }
    Ok(())
}
