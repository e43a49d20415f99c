//! The names in `${secrets.NAME}`.

const OPEN: &str = "${secrets.";

/// Every name that the text calls for, in order. The same rule as when the text is filled: a name ends at the brace and
/// holds neither space nor `$` nor `{`.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(OPEN).filter_map(|(at, open)| {
        let (name, _) = text[at + open.len()..].split_once('}')?;
        let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || matches!(c, '{' | '$'));
        is_name.then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::names;

    fn all(text: &str) -> Vec<&str> {
        names(text).collect()
    }

    #[test]
    fn names_are_found_in_order() {
        assert_eq!(all("${secrets.a} ${HOME} ${secrets.b-c}${secrets.a}"), ["a", "b-c", "a"]);
    }

    #[test]
    fn any_other_dollar_brace_is_left_alone() {
        for text in ["${HOME}", "${{ secrets.X }}", "${secrets}", "${secrets.", "${secrets.}", "${secrets.a b}"] {
            assert_eq!(all(text), [""; 0], "{text}");
        }
        assert_eq!(all("${secrets.${secrets.a}}"), ["a"]);
    }

    proptest! {
        #[test]
        fn a_name_is_found_whatever_stands_around_it(before in "[^$]{0,9}", after in "[^$]{0,9}") {
            let text = format!("{before}${{secrets.token}}{after}");
            prop_assert_eq!(all(&text), ["token"]);
        }
    }
}
