//! One run, as an attack's body sees it.

/// One agent in one sandbox for one attack.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {}
