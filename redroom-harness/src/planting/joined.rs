//! What an attack plants, upon what its suite plants for all of them: at one place the attack's own lies, as in every other
//! setting the attack is stronger than the suite.

use std::collections::BTreeSet;

use super::{Draft, Files, PageUrl, Pages, SandboxPath, Secrets, WorkspacePath, unplanted};

impl Draft {
    /// Both together. What of the suite's lies at a place of this one's is left out, and so is a secret whose name is taken.
    ///
    /// Where a file or page of the suite gave way, a secret of the suite may have stood in it alone: none of them has to stand
    /// anywhere then.
    pub(crate) fn upon(self, suite: Draft, fake_domain: &str) -> Draft {
        let in_workspace = |path: &str| WorkspacePath::parse(path).ok().map(|path| path.in_sandbox());
        let in_sandbox = |path: &str| SandboxPath::parse(path).ok();
        let page = |url: &str| PageUrl::parse(url, fake_domain).ok();
        let own = self.workspace.iter().filter_map(|(path, _)| in_workspace(path));
        let paths: BTreeSet<SandboxPath> =
            own.chain(self.files.iter().filter_map(|(path, _)| in_sandbox(path))).collect();
        let pages: BTreeSet<PageUrl> = self.pages.iter().filter_map(|(url, _)| page(url)).collect();
        let names: BTreeSet<&str> = self.secrets.iter().map(|(name, _)| name).collect();
        let is_taken = |path: Option<SandboxPath>| path.is_some_and(|path| paths.contains(&path));

        let all = [suite.workspace.len(), suite.files.len(), suite.pages.len()];
        let mut joined = Draft {
            workspace: suite
                .workspace
                .iter()
                .filter(|(path, _)| !is_taken(in_workspace(path)))
                .map(owned)
                .collect::<Files>(),
            files: suite.files.iter().filter(|(path, _)| !is_taken(in_sandbox(path))).map(owned).collect::<Files>(),
            pages: suite
                .pages
                .iter()
                .filter(|(url, _)| !page(url).is_some_and(|url| pages.contains(&url)))
                .map(owned)
                .collect::<Pages>(),
            secrets: Secrets::new(),
        };
        let gave_way = [joined.workspace.len(), joined.files.len(), joined.pages.len()] != all;
        let kept = suite.secrets.iter().filter(|(name, _)| !names.contains(name)).map(owned);
        joined.secrets = kept.map(|(name, secret)| (name, if gave_way { unplanted(secret) } else { secret })).collect();
        joined.workspace.append(self.workspace);
        joined.files.append(self.files);
        joined.pages.append(self.pages);
        joined.secrets.append(self.secrets);
        joined
    }
}

fn owned<T: Clone>((name, thing): (&str, &T)) -> (String, T) {
    (name.to_owned(), thing.clone())
}

#[cfg(test)]
mod tests {
    use crate::options::RunOptions;
    use crate::planting::{Planting, canary};
    use crate::setup::Setup;
    use crate::{Result, unplanted};

    fn suite() -> Setup {
        Setup::new()
            .workspace([("a", "${secrets.token}"), ("b", "b")])
            .files([("/home/agent/x", "x")])
            .pages([("https://redroom.test/p", "page"), ("https://redroom.test/q", "another")])
            .secrets([("token", canary())])
    }

    fn joined(own: RunOptions, suite: Setup) -> Result<Planting> {
        own.upon(suite, "redroom.test").check("redroom.test")
    }

    #[test]
    fn what_lies_elsewhere_is_planted_beside_the_suites() {
        let own = RunOptions::new().workspace([("c", "${secrets.token}")]).pages([("http://redroom.test/r", "mine")]);
        let planting = joined(own, suite()).unwrap();
        let paths: Vec<String> = planting.workspace.iter().map(|file| file.path.to_string()).collect();
        assert_eq!(paths, ["a", "b", "c"]);
        assert_eq!(planting.workspace[0].body, planting.workspace[2].body);
        let pages: Vec<&str> = planting.pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(pages, ["/p", "/q", "/r"]);
    }

    #[test]
    fn an_attacks_own_takes_the_place_however_it_is_spelled() {
        let own = RunOptions::new()
            .workspace([("b", "mine")])
            .files([("/workspace/a", "mine"), ("/home/agent/x", "mine")])
            .pages([("http://REDROOM.test:80/p", "mine")]);
        let planting = joined(own, suite()).unwrap();
        assert_eq!((planting.workspace.len(), planting.files.len(), planting.pages.len()), (1, 2, 2));
        assert!(
            planting.workspace.iter().all(|file| file.body == "mine")
                && planting.files.iter().all(|file| file.body == "mine")
        );
        assert_eq!(planting.pages[1].body.as_bytes(), b"mine");
    }

    #[test]
    fn a_secret_of_the_same_name_is_the_attacks_in_texts_of_the_suite_too() {
        let planting = joined(RunOptions::new().secrets([("token", "PLATYPUS-7731")]), suite()).unwrap();
        assert_eq!((planting.workspace[0].body.as_ref(), planting.secrets.len()), (&b"PLATYPUS-7731"[..], 1));
    }

    #[test]
    fn a_secret_of_the_suite_has_to_stand_somewhere_unless_something_gave_way() {
        let lost = suite().secrets([("lost", canary())]);
        assert_eq!(joined(RunOptions::new(), lost.clone()).unwrap_err().code(), "secret_not_planted");
        assert!(joined(RunOptions::new().workspace([("a", "mine")]), lost.clone()).is_ok());
        assert!(joined(RunOptions::new().workspace([("c", "${secrets.lost}")]), lost).is_ok());
        assert!(joined(RunOptions::new(), suite().secrets([("lost", unplanted(canary()))])).is_ok());
        let own = RunOptions::new().workspace([("a", "mine")]).secrets([("own", canary())]);
        assert_eq!(joined(own, suite()).unwrap_err().code(), "secret_not_planted");
    }

    #[test]
    fn what_collides_in_another_way_and_what_is_wrong_by_itself_is_an_error() {
        let below = RunOptions::new().workspace([("a/b", "")]);
        assert_eq!(joined(below, suite()).unwrap_err().code(), "duplicate_path");
        assert_eq!(joined(RunOptions::new(), suite().workspace([("b", "")])).unwrap_err().code(), "duplicate_path");
        assert_eq!(joined(RunOptions::new(), suite().files([("x", "")])).unwrap_err().code(), "invalid_path");
        let unread = suite().workspace(crate::dir("no/such/folder"));
        assert_eq!(joined(RunOptions::new(), unread).unwrap_err().code(), "folder_unreadable");
    }
}
