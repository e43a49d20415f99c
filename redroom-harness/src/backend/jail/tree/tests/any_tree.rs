//! Whatever tree an agent makes.

use super::*;

/// Something at a path of a few letters, over and over: what is made last counts, and what cannot be made is not.
#[derive(Clone, Debug)]
enum Made {
    File(String, String, u32),
    Folder(String, u32),
    Link(String, String),
    Fifo(String),
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    let path = || "[ab]{1,2}(/[ab]{1,2}){0,3}";
    let mode = || prop_oneof![Just(0o755_u32), Just(0), Just(0o300), Just(0o444), Just(0o7777)];
    let one = prop_oneof![
        (path(), ".{0,9}", mode()).prop_map(|(path, content, mode)| Made::File(path, content, mode)),
        (path(), mode()).prop_map(|(path, mode)| Made::Folder(path, mode)),
        (path(), "[ab./]{1,9}").prop_map(|(path, target)| Made::Link(path, target)),
        path().prop_map(Made::Fifo),
    ];
    proptest::collection::vec(one, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everything_that_was_made_is_shown_once_in_order(all in made()) {
        let place = folder();
        let roots = workspace(&place);
        let mut expected = BTreeMap::new();
        let mut modes = BTreeMap::new();
        for one in &all {
            let (Made::File(name, ..) | Made::Folder(name, _) | Made::Link(name, _) | Made::Fifo(name)) = one;
            let at = place.path().join(name);
            // No way through a link: that would be another place.
            let straight = at.ancestors().skip(1).take_while(|above| above.starts_with(place.path())).all(|above| !above.is_symlink());
            if !straight || fs::symlink_metadata(&at).is_ok() {
                continue;
            }
            let (kind, mode) = match one {
                Made::File(_, content, mode) if fs::write(&at, content).is_ok() => (CollectedKind::File(content.len() as u64), Some(*mode)),
                Made::Folder(_, mode) if fs::create_dir(&at).is_ok() => (CollectedKind::Folder, Some(*mode)),
                Made::Link(_, target) if symlink(target, &at).is_ok() => (CollectedKind::Symlink(target.clone().into_bytes()), None),
                Made::Fifo(_) if mkfifoat(CWD, &at, Mode::RUSR).is_ok() => (CollectedKind::Special("fifo"), None),
                _ => continue,
            };
            expected.insert(format!("/workspace/{name}").into_bytes(), kind);
            modes.extend(mode.map(|mode| (name.clone(), mode)));
        }
        modes.iter().rev().for_each(|(name, to)| mode(&place.path().join(name), *to));
        let seen = seen(&roots, &["/workspace"]);
        prop_assert_eq!(&seen.missed, &[]);
        let shown: BTreeMap<Vec<u8>, CollectedKind> =
            seen.entries.iter().skip(1).map(|(path, (entry, _))| (path.clone(), entry.kind.clone())).collect();
        prop_assert_eq!(shown, expected);
        let parts = |path: &Vec<u8>| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        prop_assert!(seen.order.is_sorted_by_key(parts));
        for (name, expected) in &modes {
            prop_assert_eq!(seen.get(format!("/workspace/{name}")).0.mode, *expected);
        }
        // From above, as it is the other way round than they were shut.
        modes.keys().for_each(|name| mode(&place.path().join(name), 0o700));
    }
}
