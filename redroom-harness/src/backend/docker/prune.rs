//! Images of sidecars of other builds: each build of a suite has one of its own, and nobody needs the old ones.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::ImageSummary;
use bollard::query_parameters::{ListImagesOptionsBuilder, RemoveImageOptionsBuilder};

use super::engine::{Engine, unless};
use super::labels::{LABEL, label_filter};
use super::pack::REPOSITORY;
use crate::error::Result;

/// How long an image of another build is kept, and how many at most.
const KEEP_FOR: Duration = Duration::from_secs(24 * 60 * 60);
const KEEP_MOST: usize = 8;

/// Removes images of other builds that no container uses, and says which.
pub(crate) async fn prune(engine: &Engine, current: Option<&str>) -> Result<Vec<String>> {
    let options = ListImagesOptionsBuilder::new().filters(&label_filter()).build();
    let images = engine.call("list the sidecar's images", engine.docker.list_images(Some(options))).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut removed = Vec::new();
    for (name, image) in old(images, current, now) {
        let options = RemoveImageOptionsBuilder::new().build();
        let removal = engine.call("remove an old image", engine.docker.remove_image(&image, Some(options), None)).await;
        // 404: another process was faster. 409: a container uses it.
        if unless(&[404, 409], removal)?.is_some() {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Names of those images of ours that are too old or too many, each with what to remove it by.
fn old(images: Vec<ImageSummary>, current: Option<&str>, now: Duration) -> Vec<(String, String)> {
    let mut ours: Vec<_> = images
        .into_iter()
        // The filter is the engine's; whose an image is, it says itself.
        .filter(|image| image.labels.get(LABEL).is_some_and(|value| value == "1"))
        .filter_map(|image| {
            let tag = image.repo_tags.iter().find(|tag| !tag.starts_with("<none>")).cloned();
            match tag {
                Some(tag) if !tag.starts_with(&format!("{REPOSITORY}:")) || Some(&tag[..]) == current => None,
                Some(tag) => Some((image.created, Some(tag.clone()), tag)),
                None => Some((image.created, None, image.id)),
            }
        })
        .collect();
    ours.sort_by_key(|(created, ..)| std::cmp::Reverse(*created));
    let since = i64::try_from(now.saturating_sub(KEEP_FOR).as_secs()).unwrap_or(i64::MAX);
    ours.into_iter()
        .enumerate()
        .filter(|(rank, (created, ..))| *rank >= KEEP_MOST || *created < since)
        .map(|(_, (_, tag, id))| (tag.unwrap_or_else(|| id.clone()), id))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn images_too_old_or_too_many_go_and_those_of_others_stay() {
        let hour = 3600;
        let now = 1000 * hour;
        let image = |tag: &str, hours: i64| ImageSummary {
            id: format!("sha256:{tag}"),
            repo_tags: if tag.is_empty() { Vec::new() } else { vec![tag.to_owned()] },
            created: now - hours * hour,
            labels: HashMap::from([(LABEL.to_owned(), "1".to_owned())]),
            ..Default::default()
        };
        let mut images: Vec<_> = (1..=10).map(|hours| image(&format!("redroom-sidecar:{hours}"), hours)).collect();
        images.extend([
            image("redroom-sidecar:mine", 900),
            image("redroom-sidecar:old", 30),
            image("", 40),
            image("redroom-agent:x", 90),
            ImageSummary { labels: HashMap::new(), ..image("redroom-sidecar:of-somebody-else", 90) },
        ]);
        let names: Vec<String> = old(images, Some("redroom-sidecar:mine"), Duration::from_secs(now as u64))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["redroom-sidecar:9", "redroom-sidecar:10", "redroom-sidecar:old", "sha256:"]);
    }
}
