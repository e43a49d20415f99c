//! The fake domain, and which names lie in it: decided label by label, so that `evilredroom.test` never passes for
//! `redroom.test`.

/// A domain name: lower case, without dots at its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    labels: Vec<Vec<u8>>,
}

impl Domain {
    /// `None` if the text is no domain name.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let labels: Vec<_> = text.split('.').map(|label| label.to_ascii_lowercase().into_bytes()).collect();
        let valid = text.len() <= 253
            && labels.iter().all(|label| (1..=63).contains(&label.len()) && label.iter().copied().all(plain));
        valid.then_some(Domain { labels })
    }

    /// Whether a host is the domain or lies under it. Letter case and one dot at its end do not matter.
    pub(crate) fn holds(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.holds_labels(host.split('.').map(str::as_bytes))
    }

    /// The same for a name that is cut into labels already: a label may have a dot in it.
    pub(crate) fn holds_labels<'a>(&self, labels: impl DoubleEndedIterator<Item = &'a [u8]>) -> bool {
        let mut theirs = labels.rev();
        let mut ours = self.labels.iter().rev();
        ours.all(|label| theirs.next().is_some_and(|other| other.eq_ignore_ascii_case(label)))
            && theirs.all(|label| !label.is_empty())
    }
}

/// The labels of a name that is written with dots.
pub(crate) fn labels(name: &str) -> Vec<&str> {
    name.split('.').collect()
}

#[cfg(test)]
mod tests {
    use super::Domain;

    #[test]
    fn a_name_lies_in_the_domain_label_by_label_or_not_at_all() {
        let domain = Domain::new("redroom.test").unwrap();
        for inside in ["redroom.test", "docs.redroom.test", "a.b.c.d.redroom.test", "T.RedRoom.Test", "t.redroom.test."]
        {
            assert!(domain.holds(inside), "{inside}");
        }
        for outside in [
            "evilredroom.test",
            "redroom.test.evil.com",
            "test",
            "",
            ".",
            "redroom.test..",
            ".redroom.test",
            "redroom.tes",
        ] {
            assert!(!domain.holds(outside), "{outside}");
        }
        assert!(!domain.holds_labels([&b"x.redroom"[..], b"test"].into_iter()), "a dot inside a label is no border");
    }

    #[test]
    fn what_is_no_name_is_no_domain() {
        for bad in ["", ".", "a..b", "redroom.test.", "*.test", "a b", &"x".repeat(64)] {
            assert_eq!(Domain::new(bad), None, "{bad:?}");
        }
    }
}
