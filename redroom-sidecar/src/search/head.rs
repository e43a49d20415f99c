//! The heads of containers, from the end of their sign to where the compressed bytes begin.

use super::container::Why;
use super::zstd::FrameHead;

/// How long a name or comment may be.
const TEXT: u32 = 64 << 10;

/// A head that is being read.
pub(super) enum Head {
    Gzip(Gzip),
    Zip(Fixed<26>),
    /// So many bytes are left, then DEFLATE begins.
    Skip(u32),
    Zstd(FrameHead),
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All input was taken.
    Hungry,
    /// So many bytes were taken, then DEFLATE begins.
    Deflate(usize),
    /// So many bytes were taken for a frame's head.
    Zstd(usize, FrameHead),
    /// There is nothing to open: it is stored, or no container at all.
    Nothing,
    Closed(Why),
}

impl Head {
    pub(super) fn gzip() -> Self {
        Head::Gzip(Gzip { fixed: Fixed::default(), flags: 0, field: Field::Extra, seen: 0, extra: [0; 2] })
    }

    pub(super) fn zstd() -> Self {
        Head::Zstd(FrameHead::default())
    }

    pub(super) fn zip() -> Self {
        Head::Zip(Fixed::default())
    }

    pub(super) fn step(&mut self, input: &[u8]) -> Step {
        match self {
            Head::Gzip(gzip) => gzip.step(input),
            Head::Zip(fixed) => {
                let Some((read, fields)) = fixed.fill(input) else { return Step::Hungry };
                match entry(fields) {
                    Ok(skip) => {
                        *self = Head::Skip(skip);
                        advance(self.step(&input[read..]), read)
                    }
                    Err(step) => step,
                }
            }
            Head::Zstd(head) => head.fill(input).map_or(Step::Hungry, |read| Step::Zstd(read, *head)),
            Head::Skip(left) => match u32::try_from(input.len()) {
                Ok(length) if length < *left => {
                    *left -= length;
                    Step::Hungry
                }
                _ => Step::Deflate(*left as usize),
            },
        }
    }
}

fn advance(step: Step, read: usize) -> Step {
    match step {
        Step::Deflate(more) => Step::Deflate(read + more),
        other => other,
    }
}

/// What a ZIP entry's local header says, after its signature: how much of it follows.
fn entry(fields: [u8; 26]) -> Result<u32, Step> {
    let number = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
    let (version, flags, method) = (fields[0], number(2), number(4));
    if version > 63 {
        return Err(Step::Nothing);
    }
    match method {
        0..=99 if flags & 1 == 1 => Err(Step::Closed(Why::Encrypted)),
        8 => Ok(u32::from(number(22)) + u32::from(number(24))),
        // Stored, or in a format that has a sign of its own: bzip2, Zstandard, xz.
        0 | 12 | 93 | 95 => Err(Step::Nothing),
        1..=99 => Err(Step::Closed(Why::Unsupported)),
        _ => Err(Step::Nothing),
    }
}

/// A field of so many bytes.
pub(super) struct Fixed<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> Default for Fixed<N> {
    fn default() -> Self {
        Fixed { bytes: [0; N], have: 0 }
    }
}

impl<const N: usize> Fixed<N> {
    /// The field, once it is whole, and how many bytes were taken for that.
    pub(super) fn fill(&mut self, input: &[u8]) -> Option<(usize, [u8; N])> {
        let read = input.len().min(N - self.have);
        self.bytes[self.have..self.have + read].copy_from_slice(&input[..read]);
        self.have += read;
        (self.have == N).then_some((read, self.bytes))
    }
}

/// A gzip member's head after `1f 8b 08`.
pub(super) struct Gzip {
    /// Flags, time, two hints.
    fixed: Fixed<7>,
    flags: u8,
    field: Field,
    /// How much of the field was seen.
    seen: u32,
    extra: [u8; 2],
}

/// The optional fields, in their order.
#[derive(Clone, Copy)]
enum Field {
    Extra,
    Name,
    Comment,
    Check,
    Done,
}

impl Gzip {
    fn step(&mut self, input: &[u8]) -> Step {
        let begun = if self.fixed.have == 7 {
            0
        } else {
            let Some((read, fields)) = self.fixed.fill(input) else { return Step::Hungry };
            self.flags = fields[0];
            if self.flags > 0x1f {
                return Step::Nothing;
            }
            read
        };
        let mut at = begun;
        loop {
            let wanted = match self.field {
                Field::Extra => self.flags & 4 != 0,
                Field::Name => self.flags & 8 != 0,
                Field::Comment => self.flags & 16 != 0,
                Field::Check => self.flags & 2 != 0,
                Field::Done => return Step::Deflate(at),
            };
            let mut whole = !wanted;
            while !whole {
                let Some(&byte) = input.get(at) else { return Step::Hungry };
                at += 1;
                self.seen += 1;
                whole = self.ends_with(byte);
                if self.seen > TEXT + 2 {
                    return Step::Nothing;
                }
            }
            self.seen = 0;
            self.field = match self.field {
                Field::Extra => Field::Name,
                Field::Name => Field::Comment,
                Field::Comment => Field::Check,
                Field::Check | Field::Done => Field::Done,
            };
        }
    }

    /// Whether the field ends with a byte of it.
    fn ends_with(&mut self, byte: u8) -> bool {
        match self.field {
            Field::Extra => {
                if let Some(length) = self.extra.get_mut(self.seen as usize - 1) {
                    *length = byte;
                }
                self.seen >= 2 && self.seen == 2 + u32::from(u16::from_le_bytes(self.extra))
            }
            Field::Name | Field::Comment => byte == 0,
            Field::Check => self.seen == 2,
            Field::Done => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(mut head: impl FnMut() -> Head, bytes: &[u8]) -> Step {
        let whole = head().step(bytes);
        for cut in 0..bytes.len() {
            let mut head = head();
            let step = match head.step(&bytes[..cut]) {
                Step::Hungry => advance(head.step(&bytes[cut..]), cut),
                step => step,
            };
            assert_eq!(step, whole, "cut at {cut}");
        }
        whole
    }

    #[test]
    fn every_field_of_gzip_is_passed_over() {
        let fixed = |flags: u8| [&[flags][..], &[0; 6]].concat();
        assert_eq!(steps(Head::gzip, &fixed(0)), Step::Deflate(7));
        let all = [&fixed(0x1f)[..], b"\x03\x00abc", b"name\0", b"comment\0", b"\x12\x34", b"body"].concat();
        assert_eq!(steps(Head::gzip, &all), Step::Deflate(all.len() - 4));
        assert_eq!(steps(Head::gzip, &fixed(0x20)), Step::Nothing, "a flag that does not exist");
        let endless = [&fixed(8)[..], &vec![b'a'; 70_000]].concat();
        assert_eq!(Head::gzip().step(&endless), Step::Nothing);
    }

    #[test]
    fn an_entry_of_zip_is_told_by_its_method() {
        let header = |flags: u8, method: u8| {
            let mut fields = [0; 26];
            (fields[0], fields[2], fields[4]) = (20, flags, method);
            (fields[22], fields[24]) = (4, 3);
            [&fields[..], b"nameexx", b"body"].concat()
        };
        assert_eq!(steps(Head::zip, &header(8, 8)), Step::Deflate(33));
        assert_eq!(steps(Head::zip, &header(0, 0)), Step::Nothing);
        assert_eq!(steps(Head::zip, &header(1, 8)), Step::Closed(Why::Encrypted));
        assert_eq!(steps(Head::zip, &header(1, 0)), Step::Closed(Why::Encrypted));
        assert_eq!(steps(Head::zip, &header(0, 14)), Step::Closed(Why::Unsupported));
    }
}
