//! Single files.

use super::*;

#[test]
fn single_files_are_read_and_nothing_else() {
    let place = folder();
    let roots = workspace(&place);
    let at = |name: &str| place.path().join(name);
    plant(&roots, &[file("/workspace/a/file", "content"), file("/workspace/large", &"x".repeat(100_000))]).unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    symlink("a", at("way")).unwrap();
    symlink("file", at("a/inner")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();

    assert_eq!(read_file(&roots, "/workspace/a/file", 7).unwrap(), Some(b"content".to_vec()));
    for (path, limit) in [("/workspace/a/file", 6), ("/workspace/large", 99_999), ("/workspace/sparse", 1 << 30)] {
        assert_eq!(read_file(&roots, path, limit).unwrap_err().code(), "read_output_too_large", "{path}");
    }
    let long = format!("/workspace/{}", "x".repeat(300));
    let longer = format!("/workspace{}", "/x".repeat(3000));
    for nothing in [
        "/workspace/none",
        "/workspace/none/none",
        "/workspace/a",
        "/workspace",
        "/workspace/link",
        "/workspace/way/file",
        "/workspace/a/inner",
        "/workspace/fifo",
        "/workspace/socket",
        "/workspace/large/x",
        "/workspace/a/../large",
        "/etc/passwd",
        "relative",
        &long,
        &longer,
    ] {
        assert_eq!(read_file(&roots, nothing, 1000).unwrap(), None, "{nothing}");
    }
}

#[test]
fn a_shut_file_in_shut_folders_is_read_and_stays_shut() {
    let place = folder();
    let roots = workspace(&place);
    plant(
        &roots,
        &[
            placed_folder("/workspace/a", 0),
            placed_folder("/workspace/a/b", 0o400),
            PlacedEntry { mode: 0, ..file("/workspace/a/b/c", "hidden") },
        ],
    )
    .unwrap();
    assert_eq!(read_file(&roots, "/workspace/a/b/c", 10).unwrap(), Some(b"hidden".to_vec()));
    assert_eq!(read_file(&roots, "/workspace/a/b/d", 10).unwrap(), None);
    let seen = seen(&roots, &["/workspace"]);
    let modes = ["/workspace/a", "/workspace/a/b", "/workspace/a/b/c"].map(|path| seen.get(path).0.mode);
    assert_eq!(modes, [0, 0o400, 0]);
    mode(&place.path().join("a"), 0o700);
    mode(&place.path().join("a/b"), 0o700);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_too_large_at_the_limit() {
    let place = folder();
    let roots = workspace(&place);
    let path = place.path().join("growing");
    fs::write(&path, vec![b'x'; 1000]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && file.metadata().unwrap().len() < 4 << 20 {
                io::Write::write_all(&mut file, &[b'y'; 4096]).unwrap();
            }
        });
        for _ in 0..100 {
            match read_file(&roots, "/workspace/growing", 1 << 20) {
                Ok(Some(content)) => assert!(content.len() <= 1 << 20),
                Ok(None) => panic!("it is there"),
                Err(error) => assert_eq!(error.code(), "read_output_too_large"),
            }
            let seen = seen(&roots, &["/workspace"]);
            let (entry, content) = seen.get("/workspace/growing");
            assert_eq!(entry.kind, CollectedKind::File(content.len() as u64));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
