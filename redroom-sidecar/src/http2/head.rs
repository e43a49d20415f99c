//! The strings in a compressed head (RFC 7541), in order. What refers to a table was written out in an earlier one.

use super::huffman;

/// Names and values as they are written out; a name that stands in a table is empty. Ends where the head does, or breaks.
pub(super) fn strings(mut head: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut strings = Vec::new();
    while let Some(&first) = head.first() {
        let prefix = match first {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let Some(number) = integer(&mut head, prefix) else { break };
        if matches!(prefix, 5 | 7) {
            continue;
        }
        let name = match number {
            0 => string(&mut head),
            _ => Some(Vec::new()),
        };
        let Some(name) = name else { break };
        match string(&mut head) {
            Some(value) => strings.push((name, value)),
            None => {
                strings.push((name, Vec::new()));
                break;
            }
        }
    }
    strings
}

/// A number in the last bits of a byte, and as many more as it needs.
fn integer(head: &mut &[u8], prefix: u8) -> Option<usize> {
    let (&first, mut rest) = head.split_first()?;
    let most = (1 << prefix) - 1;
    let mut number = usize::from(first & most);
    if number == usize::from(most) {
        for shift in (0..28).step_by(7) {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            number += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *head = rest;
                return Some(number);
            }
        }
        return None;
    }
    *head = rest;
    Some(number)
}

/// One that is cut short is given as far as it goes.
fn string(head: &mut &[u8]) -> Option<Vec<u8>> {
    let is_huffman = head.first()? & 0x80 != 0;
    let length = integer(head, 7)?;
    let (string, rest) = head.split_at(length.min(head.len()));
    *head = rest;
    Some(if is_huffman { huffman::decode(string) } else { string.to_owned() })
}
