//! A redroom of a trial's own, without the attribute: started for it, and stopped whatever becomes of it.

use std::future::Future;
use std::sync::Arc;

use libtest_mimic::{Completion, Failed};
use redroom::{Redroom, Suite};

/// Plays a trial with a redroom that is set so. Where its backend cannot run, the trial is ignored with the reason, unless
/// `REDROOM_REQUIRE` names that backend.
pub(crate) fn played<F>(suite: Suite, body: impl FnOnce(Arc<Redroom>) -> F) -> Result<Completion, Failed>
where
    F: Future<Output = redroom::Result<()>> + 'static,
{
    tokio::runtime::Runtime::new()?.block_on(async {
        let redroom = match Redroom::start(suite).await {
            Ok(redroom) => Arc::new(redroom),
            Err(error) => {
                return match error.code().strip_suffix("_unavailable") {
                    Some(backend) if !requires(|required| required == backend) => {
                        Ok(Completion::ignored_with(error.to_string()))
                    }
                    _ => Err(Failed::from(error.to_string())),
                };
            }
        };
        let local = tokio::task::LocalSet::new();
        let playing = local.spawn_local(body(redroom.clone()));
        let ended = local.run_until(playing).await;
        redroom.stop().await;
        match ended {
            Ok(Ok(())) => Ok(Completion::Completed),
            Ok(Err(error)) => Err(Failed::from(error.to_string())),
            Err(panicked) => Err(Failed::from(panicked.to_string())),
        }
    })
}

/// Whether something like this is required to be there.
pub(crate) fn requires(this: impl Fn(&str) -> bool) -> bool {
    let required = std::env::var("REDROOM_REQUIRE").unwrap_or_default();
    required.split(',').filter(|required| !required.is_empty()).any(this)
}
