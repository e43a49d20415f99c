//! Things by name, in the order in which they were written: the shape that files, pages and secrets have in common, with all
//! that converts into it. What the names mean is each one's own, and so is what takes them from a user's hand: the compiler's words
//! about a mistake there should not speak of a macro.

/// Gives a `struct Things(Vec<(String, Thing)>)` its behaviour, and implements its trait for whatever holds names and things.
macro_rules! named {
    ($Things:ident of $Thing:ty, by $IntoThings:ident::$into_things:ident) => {
        impl $Things {
            /// None yet.
            pub fn new() -> Self {
                Self::default()
            }

            /// Each by its name, in order.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &$Thing)> {
                self.0.iter().map(|(name, thing)| (name.as_str(), thing))
            }

            /// How many there are.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there is none.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            pub(crate) fn append(&mut self, mut more: Self) {
                self.0.append(&mut more.0);
            }
        }

        impl<N: Into<String>, T: Into<$Thing>> FromIterator<(N, T)> for $Things {
            fn from_iter<I: IntoIterator<Item = (N, T)>>(things: I) -> Self {
                $Things(things.into_iter().map(|(name, thing)| (name.into(), thing.into())).collect())
            }
        }

        impl $IntoThings for $Things {
            fn $into_things(self) -> Result<$Things> {
                Ok(self)
            }
        }

        impl<T: $IntoThings> $IntoThings for Result<T> {
            fn $into_things(self) -> Result<$Things> {
                self?.$into_things()
            }
        }

        impl<N: Into<String>, T: Into<$Thing>, const LEN: usize> $IntoThings for [(N, T); LEN] {
            fn $into_things(self) -> Result<$Things> {
                Ok(self.into_iter().collect())
            }
        }

        impl<N: Into<String>, T: Into<$Thing>> $IntoThings for Vec<(N, T)> {
            fn $into_things(self) -> Result<$Things> {
                Ok(self.into_iter().collect())
            }
        }

        impl<N: Into<String> + Clone, T: Into<$Thing> + Clone> $IntoThings for &[(N, T)] {
            fn $into_things(self) -> Result<$Things> {
                Ok(self.iter().cloned().collect())
            }
        }

        impl<N: Into<String> + Clone, T: Into<$Thing> + Clone, const LEN: usize> $IntoThings for &[(N, T); LEN] {
            fn $into_things(self) -> Result<$Things> {
                self.as_slice().$into_things()
            }
        }

        impl<N: Into<String>, T: Into<$Thing>> $IntoThings for ::std::collections::BTreeMap<N, T> {
            fn $into_things(self) -> Result<$Things> {
                Ok(self.into_iter().collect())
            }
        }

        impl<N: Into<String>, T: Into<$Thing>, S> $IntoThings for ::std::collections::HashMap<N, T, S> {
            /// Sorted by name: two runs do the same in the same order.
            fn $into_things(self) -> Result<$Things> {
                let mut things: $Things = self.into_iter().collect();
                things.0.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(things)
            }
        }
    };
}

pub(super) use named;
