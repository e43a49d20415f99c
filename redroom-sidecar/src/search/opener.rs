//! An opener follows one container through the bytes after its sign, and searches what comes out of it.

use super::container::{Container, Why};
use super::decoder::{Decoder, Progress};
use super::head::{Head, Step};
use super::layer::{Layer, Place, Search};
use super::signs::Sign;

/// After so many inflated bytes a container is one beyond doubt.
const PROVEN: u64 = 512;

pub(super) struct Opener {
    container: Container,
    place: Place,
    stage: Stage,
    content: Content,
    certainty: Certainty,
}

/// What a container holds.
struct Content {
    place: Place,
    /// Made when there is something of it.
    layer: Option<Box<Layer>>,
    bytes: u64,
}

impl Content {
    fn feed(&mut self, bytes: &[u8], search: &mut Search<'_>) {
        self.bytes += bytes.len() as u64;
        self.layer.get_or_insert_with(|| Box::new(Layer::new(self.place, search.patterns))).feed(bytes, search);
    }
}

enum Stage {
    Head(Head),
    Body(Decoder),
}

/// Whether a sign stands for a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// Nothing comes before it.
    Certain,
    /// So many bytes hardly stand somewhere by chance, but do in a large upload of noise.
    Likely,
    /// Two bytes in the middle of others may.
    Doubtful,
}

/// What input came to.
enum Outcome {
    Hungry,
    /// It ended, or why it goes no further.
    Over(Option<Why>),
}

/// Why nothing was opened.
pub(super) enum Refused {
    Because(Why),
    /// It may be no container at all.
    Silently,
}

impl Opener {
    /// Opens what a sign stands for, which begins at `place`.
    pub(super) fn new(
        sign: Sign,
        place: Place,
        certainty: Certainty,
        search: &mut Search<'_>,
    ) -> Result<Self, Refused> {
        if let Sign::Closed(_, why) = sign {
            return Err(Refused::Because(why));
        }
        let container = sign.container();
        let Some(inside) = place.chain.with(container) else {
            return Err(match certainty {
                Certainty::Certain | Certainty::Likely => Refused::Because(Why::TooDeep),
                Certainty::Doubtful => Refused::Silently,
            });
        };
        let stage = match sign {
            Sign::Gzip => Ok(Stage::Head(Head::gzip())),
            Sign::Zip => Ok(Stage::Head(Head::zip())),
            Sign::Zlib => Decoder::deflate(search.means).map(Stage::Body),
            Sign::Zstd => Ok(Stage::Head(Head::zstd())),
            Sign::Bzip2(_) | Sign::Closed(..) => Err(Why::Unsupported),
        };
        match stage {
            Ok(stage) => {
                let content = Content { place: Place { chain: inside, ..place }, layer: None, bytes: 0 };
                Ok(Opener { container, place, stage, content, certainty })
            }
            // For want of memory: a doubtful one as well, which whoever used that up could count on.
            Err(why) => Err(Refused::Because(why)),
        }
    }

    /// Whether it is a container beyond doubt.
    pub(super) fn is_proven(&self) -> bool {
        let by_decoder = matches!(&self.stage, Stage::Body(decoder) if decoder.is_proven());
        by_decoder || self.content.bytes >= PROVEN
    }

    /// Whether it may be there by chance.
    pub(super) fn is_doubtful(&self) -> bool {
        self.certainty == Certainty::Doubtful
    }

    /// Whether two characters may be all of it: text that looks like digits or base64, and goes on as no such thing.
    fn is_text(&self) -> bool {
        self.container == Container::Zlib && self.place.chain.ends_in_text()
    }

    /// Takes the next bytes. `false`: it is over, and was closed.
    pub(super) fn feed(&mut self, input: &[u8], search: &mut Search<'_>) -> bool {
        let outcome = match &mut self.stage {
            Stage::Head(head) => match head.step(input) {
                Step::Hungry => Outcome::Hungry,
                Step::Nothing => Outcome::Over(None),
                Step::Closed(why) => Outcome::Over(Some(why)),
                Step::Deflate(read) => self.open(Decoder::deflate(search.means), &input[read..], search),
                Step::Zstd(read, head) => self.open(Decoder::zstd(head, search.means), &input[read..], search),
            },
            Stage::Body(_) => self.inflate(input, search),
        };
        match outcome {
            Outcome::Hungry => true,
            Outcome::Over(why) => {
                if why == Some(Why::Damaged) {
                    self.give_rest(search);
                }
                self.close(why, search);
                false
            }
        }
    }

    fn open(&mut self, decoder: Result<Decoder, Why>, input: &[u8], search: &mut Search<'_>) -> Outcome {
        match decoder {
            Ok(decoder) => {
                self.stage = Stage::Body(decoder);
                self.inflate(input, search)
            }
            Err(why) => Outcome::Over(Some(why)),
        }
    }

    fn inflate(&mut self, mut input: &[u8], search: &mut Search<'_>) -> Outcome {
        let Stage::Body(decoder) = &mut self.stage else { return Outcome::Over(None) };
        loop {
            let decoded = decoder.decode(input);
            input = &input[decoded.read..];
            if !decoded.output.is_empty() {
                if !search.means.inflate(decoded.output.len()) {
                    return Outcome::Over(Some(Why::TooLarge));
                }
                self.content.feed(decoded.output, search);
            }
            match decoded.progress {
                Progress::More => {}
                Progress::Hungry => return Outcome::Hungry,
                Progress::Ended => return Outcome::Over(None),
                Progress::Broken => return Outcome::Over(Some(Why::Damaged)),
            }
        }
    }

    /// No more input will come: what the decoder holds back is searched.
    fn give_rest(&mut self, search: &mut Search<'_>) {
        if let Stage::Body(decoder) = &mut self.stage {
            decoder.break_off();
            self.inflate(&[], search);
        }
    }

    /// Too much came after it that may be a container as well.
    pub(super) fn abandon(mut self, search: &mut Search<'_>) {
        self.close(Some(Why::TooMany), search);
    }

    /// The stream has ended.
    pub(super) fn finish(mut self, search: &mut Search<'_>) {
        self.give_rest(search);
        self.close(Some(Why::Incomplete), search);
    }

    /// Ends the search of the content, and tells why there was no more of it.
    fn close(&mut self, why: Option<Why>, search: &mut Search<'_>) {
        if let Some(layer) = self.content.layer.take() {
            layer.finish(search);
        }
        let is_told = match why {
            None => false,
            // What is doubtful may have been cut by the format that it lies in, as the rows of a PNG are.
            Some(Why::Damaged) => match self.certainty {
                Certainty::Certain => self.content.bytes > 0,
                Certainty::Likely => self.is_proven(),
                Certainty::Doubtful => false,
            },
            // It made room where so many begin at once that chance is no reason.
            Some(Why::TooMany) => true,
            Some(Why::Incomplete) => {
                self.is_proven() || self.content.bytes > 0 && !self.is_doubtful() && !self.is_text()
            }
            Some(_) => !self.is_doubtful() || self.is_proven(),
        };
        if let Some(why) = why.filter(|_| is_told) {
            search.findings.unsearched(self.container, self.place.chain, why, self.place.offset);
        }
        if let Stage::Body(decoder) = std::mem::replace(&mut self.stage, Stage::Head(Head::gzip())) {
            decoder.close(search.means);
        }
    }
}
