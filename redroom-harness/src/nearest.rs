//! The known word that somebody probably meant.

/// The known word nearest to `word`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let known = ["parallel", "backend", "limits"];
        assert_eq!(nearest("paralel", known), Some("parallel"));
        assert_eq!(nearest("bakcend", known), Some("backend"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", []), None);
    }
}
