//! Frames as they come, cut anywhere.

use super::*;

const SECRET: &str = "PLATYPUS-7731";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header that is written out, its value as Huffman codes.
fn header(name: &str, value: &str) -> Vec<u8> {
    let coded = huffman::encode(value.as_bytes());
    [&[0x10, name.len() as u8], name.as_bytes(), &[0x80 | coded.len() as u8], &coded].concat()
}

/// What is found in frames, and in the rest; the same for every cut.
fn found(frames: &[Vec<u8>]) -> (usize, usize) {
    let sent = [PREFACE, &frames.concat()].concat();
    let set = SecretSet::new([("it", SECRET)]);
    let search = |cut: usize| {
        let mut rest = set.scanner();
        let mut frames = Frames::new(&set);
        frames.feed(&sent[..cut], &mut rest);
        frames.feed(&sent[cut..], &mut rest);
        (frames.finish().matches.len(), rest.finish().matches.len())
    };
    let whole = search(sent.len());
    (0..sent.len()).for_each(|cut| assert_eq!(search(cut), whole, "cut at {cut}"));
    whole
}

#[test]
fn a_head_is_searched_as_it_was_meant() {
    assert_eq!(found(&[frame(HEADERS, END_HEADERS, 1, &header("x-token", SECRET))]), (1, 0));
    let whole = header("x-token", SECRET);
    let (first, second) = whole.split_at(15);
    let parts = [frame(HEADERS, 0, 1, first), frame(CONTINUATION, END_HEADERS, 1, second)];
    assert_eq!(found(&parts), (1, 0), "cut over two frames");
    assert_eq!(found(&[frame(HEADERS, 0, 1, &header("x-token", SECRET))]), (1, 0), "without an end");
    let padded = [&[3], &[0; 5][..], &header("x-token", SECRET), b"pad"].concat();
    assert_eq!(found(&[frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 1, &padded)]), (1, 0));
    let plain = [&[0x10, 1, b'x', SECRET.len() as u8], SECRET.as_bytes()].concat();
    assert_eq!(found(&[frame(HEADERS, END_HEADERS, 1, &plain)]), (1, 1));
    assert_eq!(found(&[frame(HEADERS, END_HEADERS, 1, &header("x-token", "PLATYPUS-7732"))]), (0, 0));
}

#[test]
fn a_body_is_searched_over_its_frames_and_among_others() {
    let cut = [frame(DATA, 0, 1, b"PLATY"), frame(DATA, END_STREAM, 1, b"PUS-7731")];
    assert_eq!(found(&cut), (1, 0));
    let among = [frame(DATA, 0, 1, b"PLATY"), frame(DATA, 0, 3, b"other"), frame(DATA, 0, 1, b"PUS-7731")];
    assert_eq!(found(&among), (1, 0));
    let padded = [frame(DATA, PADDED, 1, b"\x03PLATYpad"), frame(DATA, PADDED, 1, b"\x02PUS-7731pa")];
    assert_eq!(found(&padded), (1, 0));
    let two = [frame(DATA, END_STREAM, 1, b"PLATY"), frame(DATA, 0, 3, b"PUS-7731")];
    assert_eq!(found(&two), (0, 0), "two bodies are not one");
}

#[test]
fn what_is_no_frame_and_what_hides_between_them_is_searched_as_it_is() {
    assert_eq!(found(&[frame(7, 0, 0, SECRET.as_bytes())]), (0, 1));
    assert_eq!(found(&[frame(DATA, PADDED, 1, b"\x0dxPLATYPUS-7731")]), (0, 1), "padding");
    assert_eq!(found(&[b"no frame at all: PLATYPUS-7731".to_vec()]), (0, 1));
    let set = SecretSet::new([("it", SECRET)]);
    let (mut frames, mut rest) = (Frames::new(&set), set.scanner());
    frames.feed(b"PRI * HTTP/1.0\r\n\r\nPLATYPUS-7731", &mut rest);
    assert_eq!((frames.finish().matches.len(), rest.finish().matches.len()), (0, 1));
}

#[test]
fn bodies_that_are_not_followed_any_more_are_searched_as_far_as_they_came() {
    let mut frames = vec![frame(DATA, 0, 1, SECRET.as_bytes())];
    frames.extend((1..20).map(|stream| frame(DATA, 0, 2 * stream + 1, b"x")));
    assert_eq!(found(&frames), (1, 0));
}

#[test]
fn however_many_bodies_hold_a_secret_it_is_kept_once() {
    let set = SecretSet::new([("it", SECRET)]);
    let (mut frames, mut rest) = (Frames::new(&set), set.scanner());
    frames.feed(PREFACE, &mut rest);
    for stream in 0..10_000 {
        frames
            .feed(&frame(DATA, END_STREAM, 2 * stream + 1, format!("{SECRET} Salted__01234567").as_bytes()), &mut rest);
    }
    let searched = frames.finish();
    assert_eq!((searched.matches.len(), searched.unsearched.len()), (1, 1));
}
