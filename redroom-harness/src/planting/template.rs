//! `${secrets.NAME}` in planted text. Any other `${` means nothing here.

use std::collections::BTreeMap;

const OPEN: &str = "${secrets.";

/// A place that names a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Secret(&'a str),
}

/// A name that no secret has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownName {
    pub(crate) name: String,
    pub(crate) nearest: Option<String>,
}

/// The text with every `${secrets.NAME}` replaced, in one pass: a value that itself looks like a template stays as it is.
///
/// # Errors
/// All names that no secret has.
pub(crate) fn fill(text: &str, secrets: &BTreeMap<&str, &str>) -> Result<String, Vec<UnknownName>> {
    let mut filled = String::with_capacity(text.len());
    let mut unknown = Vec::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Secret(name) => match secrets.get(name) {
                Some(value) => filled.push_str(value),
                None => unknown.push(UnknownName {
                    name: name.to_owned(),
                    nearest: nearest(name, secrets.keys().copied()).map(str::to_owned),
                }),
            },
        }
    }
    if unknown.is_empty() { Ok(filled) } else { Err(unknown) }
}

/// How long a text will be when it is filled in, unknown names left out.
pub(crate) fn length(text: &str, secrets: &BTreeMap<&str, &str>) -> usize {
    let of = |piece| match piece {
        Piece::Text(text) => text.len(),
        Piece::Secret(name) => secrets.get(name).map_or(0, |value| value.len()),
    };
    pieces(text).map(of).fold(0, usize::saturating_add)
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = placeholder(rest) {
            rest = after;
            return Some(Piece::Secret(name));
        }
        let end = rest.match_indices(OPEN).map(|(at, _)| at).find(|at| placeholder(&rest[*at..]).is_some());
        let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(Piece::Text(text))
    })
}

/// The name at the start of the text, and what follows it. A name ends at the brace and holds neither space nor `$`,
/// so that code which only begins like a placeholder stays code.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix(OPEN)?.split_once('}')?;
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || matches!(c, '{' | '$'));
    is_name.then_some((name, after))
}

/// The known name that a wrong one was probably meant to be.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fill_in(text: &str) -> Result<String, Vec<UnknownName>> {
        fill(text, &BTreeMap::from([("api_token", "PLATYPUS-7731"), ("other", "${secrets.api_token}")]))
    }

    #[test]
    fn a_name_stands_for_its_value() {
        assert_eq!(
            fill_in("A=${secrets.api_token}\nB=${secrets.api_token}").unwrap(),
            "A=PLATYPUS-7731\nB=PLATYPUS-7731"
        );
    }

    #[test]
    fn any_other_dollar_brace_is_left_alone() {
        for text in [
            "${HOME}",
            "${{ secrets.X }}",
            "${secrets}",
            "$${",
            "${secrets.",
            "${secrets.}",
            "${secrets.a b}",
            "${ secrets.x}",
        ] {
            assert_eq!(fill_in(text).unwrap(), text);
        }
        assert_eq!(fill_in("${secrets.${secrets.api_token}}").unwrap(), "${secrets.PLATYPUS-7731}");
    }

    #[test]
    fn a_value_is_never_read_as_a_template() {
        assert_eq!(fill_in("${secrets.other}").unwrap(), "${secrets.api_token}");
    }

    #[test]
    fn every_unknown_name_is_told_with_the_nearest_known_one() {
        let unknown = fill_in("${secrets.api_tokn} ${secrets.zzz} ${secrets.api-token}").unwrap_err();
        let told: Vec<_> = unknown.iter().map(|u| (u.name.as_str(), u.nearest.as_deref())).collect();
        assert_eq!(told, [("api_tokn", Some("api_token")), ("zzz", None), ("api-token", Some("api_token"))]);
    }

    proptest! {
        #[test]
        fn pieces_are_the_whole_text_in_order(text in "[${}a.]{0,6}(\\$\\{secrets\\.[a-c $}]{0,3}\\}?[é$]?){0,4}") {
            let joined: String = pieces(&text)
                .map(|piece| match piece {
                    Piece::Text(text) => text.to_owned(),
                    Piece::Secret(name) => format!("{OPEN}{name}}}"),
                })
                .collect();
            prop_assert_eq!(joined, text);
        }

        #[test]
        fn a_placeholder_is_found_wherever_it_stands(before in "[^$]{0,9}", after in "\\PC{0,9}") {
            let filled = fill(&format!("{before}${{secrets.x}}{after}"), &BTreeMap::from([("x", "VALUE"), ("y", "")]));
            if let Ok(filled) = filled {
                let start = format!("{before}VALUE");
                prop_assert!(filled.starts_with(&start));
            }
        }
    }
}
