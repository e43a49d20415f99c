//! Messages to the kernel over netlink: how they are built, and the verdict that it gives on each.

// From the kernel's headers: linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;

pub(super) const NLM_F_REQUEST: u16 = 0x1;
pub(super) const NLM_F_ACK: u16 = 0x4;
pub(super) const NLM_F_REPLACE: u16 = 0x100;
pub(super) const NLM_F_CREATE: u16 = 0x400;
pub(super) const NLM_F_APPEND: u16 = 0x800;

/// The length of a message's header, of its first field, and of an attribute's header.
const HEADER: usize = 16;
const LENGTH: usize = 4;
const ATTRIBUTE: usize = 4;

/// A message under construction.
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = vec![0; LENGTH];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        Message(bytes)
    }

    /// The fixed part after the header; a multiple of four bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.enclose(kind, |message| message.put(value));
    }

    /// An attribute that is made of attributes.
    pub(super) fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        self.enclose(NLA_F_NESTED | kind, inside);
    }

    /// Nothing here comes near the 64 KiB that an attribute's length can say.
    fn enclose(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        inside(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(ATTRIBUTE), 0);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..LENGTH].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// What the kernel says of a message.
pub(super) struct Verdict {
    /// Which one.
    pub(super) sequence: u32,
    /// 0 for success, else a negative error number.
    pub(super) code: i32,
}

impl Verdict {
    pub(super) fn parse(reply: &[u8]) -> Option<Self> {
        let kind = reply.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)?;
        let sequence = reply.get(8..12)?.try_into().ok().map(u32::from_ne_bytes)?;
        let code = reply.get(HEADER..HEADER + 4)?.try_into().ok().map(i32::from_ne_bytes)?;
        (kind == NLMSG_ERROR).then_some(Verdict { sequence, code })
    }

    pub(super) fn result(&self) -> std::io::Result<()> {
        match self.code {
            0 => Ok(()),
            code => Err(std::io::Error::from_raw_os_error(code.saturating_neg())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_know_their_length_and_begin_at_multiples_of_four() {
        let mut message = Message::new(7, 0, 1);
        message.nest(3, |message| {
            message.attribute(1, b"abcde");
            message.attribute(2, &[9; 4]);
        });
        let bytes = message.finish();
        let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
        assert_eq!((u16_at(16), u16_at(18)), (24, NLA_F_NESTED | 3));
        assert_eq!((u16_at(20), u16_at(22)), (9, 1), "without the padding");
        assert_eq!((u16_at(32), u16_at(34)), (8, 2));
        assert_eq!(bytes.len(), 40);
    }

    #[test]
    fn a_verdict_that_is_cut_off_is_none() {
        let mut message = Message::new(NLMSG_ERROR, 0, 5);
        message.put(&(-1i32).to_ne_bytes());
        let bytes = message.finish();
        let verdict = Verdict::parse(&bytes).unwrap();
        assert_eq!((verdict.sequence, verdict.code), (5, -1));
        assert_eq!(verdict.result().unwrap_err().raw_os_error(), Some(1));
        assert!((0..bytes.len()).all(|length| Verdict::parse(&bytes[..length]).is_none()));
    }
}
