//! A kernel for tests: makes nothing.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::super::sys::{Kernel, Namespaces, Rights};

/// A kernel that writes down what it is asked, and refuses some of it.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) asked: RefCell<Vec<String>>,
    refuses: Option<(&'static str, Errno)>,
}

impl Fake {
    pub(super) fn refusing(what: &'static str, errno: Errno) -> Self {
        Fake { refuses: Some((what, errno)), ..Fake::default() }
    }

    fn asked(&self, what: String) -> Result<(), Errno> {
        let refused = self.refuses.filter(|(refused, _)| what.starts_with(refused));
        self.asked.borrow_mut().push(what);
        refused.map_or(Ok(()), |(_, errno)| Err(errno))
    }

    pub(super) fn position(&self, what: &str) -> usize {
        let asked = self.asked.borrow();
        asked.iter().position(|it| it.starts_with(what)).unwrap_or_else(|| panic!("{what}: {asked:#?}"))
    }
}

fn nothing() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

impl Kernel for Fake {
    fn unshare(&self, namespaces: Namespaces) -> Result<(), Errno> {
        self.asked(format!("unshare {namespaces:?}"))
    }
    fn write(&self, path: &str, _: &str) -> Result<(), Errno> {
        self.asked(format!("write {path}"))
    }
    fn keep_mounts_to_itself(&self) -> Result<(), Errno> {
        self.asked("propagation".to_owned())
    }
    fn mount(&self, kind: &str, at: &str, _: &str) -> Result<(), Errno> {
        self.asked(format!("mount {kind} {at}"))
    }
    fn change_room(&self, at: &str, _: &str) -> Result<(), Errno> {
        self.asked(format!("room {at}"))
    }
    fn copy_tree(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.asked(format!("copy {path}")).map(|()| nothing())
    }
    fn restrict_tree(&self, _: &OwnedFd, rights: Rights) -> Result<(), Errno> {
        self.asked(format!("restrict tree {rights:?}"))
    }
    fn attach(&self, _: &OwnedFd, at: &str) -> Result<(), Errno> {
        self.asked(format!("attach {at}"))
    }
    fn restrict_mount(&self, path: &str, rights: Rights) -> Result<(), Errno> {
        self.asked(format!("restrict {path} {rights:?}"))
    }
    fn exists(&self, path: &str) -> Result<bool, Errno> {
        match self.asked(format!("exists {path}")) {
            Err(Errno::NOENT) => Ok(false),
            asked => asked.map(|()| true),
        }
    }
    fn folder(&self, path: &str, _: u32) -> Result<(), Errno> {
        self.asked(format!("folder {path}"))
    }
    fn file(&self, path: &str) -> Result<(), Errno> {
        self.asked(format!("file {path}"))
    }
    fn symlink(&self, path: &str, _: &str) -> Result<(), Errno> {
        self.asked(format!("symlink {path}"))
    }
    fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.asked(format!("open {path}")).map(|()| nothing())
    }
    fn enter_root(&self, path: &str) -> Result<(), Errno> {
        self.asked(format!("enter {path}"))
    }
    fn name_host(&self, name: &str) -> Result<(), Errno> {
        self.asked(format!("host {name}"))
    }
    fn limit(&self, resource: u32, _: u64) -> Result<(), Errno> {
        self.asked(format!("limit {resource}"))
    }
    fn close_to_others(&self) -> Result<(), Errno> {
        self.asked("dumpable".to_owned())
    }
    fn die_with_parent(&self) -> Result<(), Errno> {
        self.asked("death signal".to_owned())
    }
    fn become_user(&self, id: u32) -> Result<(), Errno> {
        self.asked(format!("user {id}"))
    }
    fn shut_bounding_set(&self) -> Result<(), Errno> {
        self.asked("bounding set".to_owned())
    }
    fn drop_capabilities(&self) -> Result<(), Errno> {
        self.asked("capabilities".to_owned())
    }
    fn gain_nothing(&self) -> Result<(), Errno> {
        self.asked("no new privileges".to_owned())
    }
}
