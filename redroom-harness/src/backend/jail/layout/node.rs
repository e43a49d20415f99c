//! A part of a root that is being planned: where a thing comes to lie in it, along links, and what lies at a path.

use std::collections::BTreeMap;

use super::{Host, Look, Step};

/// A part of the root.
#[derive(Debug)]
pub(super) enum Node {
    /// A folder of ours.
    Folder { mode: u32, children: Children },
    /// A link.
    Symlink(String),
    /// Something of this machine's, and what lies over parts of it.
    Host { from: String, file: bool, over: Children },
    /// A tree of the agent's, and files of root's over parts of it, by their paths.
    Own { path: String, over: BTreeMap<String, usize> },
    /// A file of the agent's.
    OwnFile(String),
    /// A file of root's.
    Fixed(usize),
}

pub(super) type Children = BTreeMap<String, Node>;

impl Node {
    pub(super) fn folder() -> Node {
        Node::Folder { mode: 0o755, children: Children::new() }
    }

    fn is_folder(&self) -> bool {
        matches!(self, Node::Folder { .. } | Node::Host { file: false, .. } | Node::Own { .. })
    }
}

/// Something of this machine's as it is. Neither sockets nor devices.
pub(super) fn let_in(host: &dyn Host, path: String) -> Option<Node> {
    let through = |file, from| Node::Host { from, file, over: Children::new() };
    match host.look(&path) {
        Look::Folder => Some(through(false, path)),
        Look::File => Some(through(true, path)),
        Look::Symlink(target) => Some(Node::Symlink(target)),
        Look::Other | Look::Missing => None,
    }
}

/// What became of a thing on its way to its place.
pub(super) enum Put {
    Placed,
    /// Its path leads on from here.
    Link(String),
    /// It lies in a tree of the agent's.
    InTree,
}

pub(super) fn put(
    host: &dyn Host,
    at: &mut Node,
    here: &str,
    parts: &[&str],
    node: &mut Option<Node>,
) -> Result<Put, &'static str> {
    let Some((name, rest)) = parts.split_first() else { return Err("it is the root itself") };
    let below = format!("{here}/{name}");
    let children = match at {
        Node::Own { .. } => return Ok(Put::InTree),
        Node::Symlink(_) | Node::OwnFile(_) | Node::Fixed(_) | Node::Host { file: true, .. } => {
            return Err("a file lies on its way");
        }
        Node::Folder { children, .. } => {
            if !rest.is_empty() && !children.contains_key(*name) {
                children.insert((*name).to_owned(), Node::folder());
            }
            children
        }
        Node::Host { from, over, .. } if !over.contains_key(*name) => {
            let path = format!("{from}/{name}");
            let wants_folder = node.as_ref().is_some_and(|node| matches!(node, Node::Folder { .. }));
            match host.look(&path) {
                Look::Folder if rest.is_empty() && wants_folder => return Ok(Put::Placed),
                Look::Folder => {
                    over.insert((*name).to_owned(), Node::Host { from: path, file: false, over: Children::new() });
                }
                Look::Symlink(target) if !rest.is_empty() => return Ok(Put::Link(follow(here, &target, rest))),
                Look::File if rest.is_empty() && !wants_folder => {}
                Look::File => return Err("a file lies on its way"),
                Look::Symlink(_) | Look::Other | Look::Missing => {
                    cover(host, at);
                    return put(host, at, here, parts, node);
                }
            }
            over
        }
        Node::Host { over, .. } => over,
    };
    if !rest.is_empty() {
        let Some(next) = children.get_mut(*name) else { return Err("a file lies on its way") };
        if let Node::Symlink(target) = next {
            return Ok(Put::Link(follow(here, target, rest)));
        }
        return put(host, next, &below, rest, node);
    }
    let Some(new) = node.take() else { return Ok(Put::Placed) };
    match (children.get(*name), &new) {
        (Some(Node::Own { .. }), Node::Folder { .. } | Node::Own { .. }) => Ok(Put::InTree),
        // What stands may stay as it is.
        (Some(standing), Node::Folder { .. }) if standing.is_folder() => Ok(Put::Placed),
        (Some(Node::Folder { children, .. }), Node::Own { .. }) if children.is_empty() => {
            overwrite(at, name, new);
            Ok(Put::Placed)
        }
        (Some(standing), _) if standing.is_folder() => Err("it is a folder"),
        (Some(Node::Host { .. } | Node::OwnFile(_) | Node::Fixed(_)), Node::Folder { .. }) => Err("it is a file"),
        _ => {
            overwrite(at, name, new);
            Ok(Put::Placed)
        }
    }
}

fn overwrite(at: &mut Node, name: &str, node: Node) {
    if let Node::Folder { children, .. } | Node::Host { over: children, .. } = at {
        children.insert(name.to_owned(), node);
    }
}

/// Makes a folder of ours out of one of this machine's: everything that it holds is let in by itself.
fn cover(host: &dyn Host, at: &mut Node) {
    let Node::Host { from, over, .. } = at else { return };
    let mut children = std::mem::take(over);
    for name in host.list(from) {
        if !children.contains_key(&name)
            && let Some(node) = let_in(host, format!("{from}/{name}"))
        {
            children.insert(name, node);
        }
    }
    *at = Node::Folder { mode: 0o755, children };
}

pub(super) enum Found {
    File(String),
    Link(String),
}

pub(super) fn find(host: &dyn Host, at: &Node, here: &str, parts: &[&str]) -> Option<Found> {
    let below = |name: &str| format!("{here}/{name}");
    match (at, parts.split_first()) {
        (Node::Folder { children, .. }, Some((name, rest))) => match children.get(*name)? {
            Node::Symlink(target) => Some(Found::Link(follow(here, target, rest))),
            next => find(host, next, &below(name), rest),
        },
        (Node::Host { from, .. }, Some((name, rest))) => {
            let path = format!("{from}/{name}");
            match host.look(&path) {
                Look::Symlink(target) => Some(Found::Link(follow(here, &target, rest))),
                Look::Folder => {
                    let next = Node::Host { from: path, file: false, over: Children::new() };
                    find(host, &next, &below(name), rest)
                }
                Look::File if rest.is_empty() => Some(Found::File(path)),
                Look::File | Look::Other | Look::Missing => None,
            }
        }
        (Node::Host { from, file: true, .. }, None) => Some(Found::File(from.clone())),
        _ => None,
    }
}

/// Where a link in the folder `here` leads, and what is left of the way. There is no link in `here` itself.
fn follow(here: &str, target: &str, rest: &[&str]) -> String {
    let start = if target.starts_with('/') { "" } else { here };
    let mut way: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/').chain(rest.iter().copied()) {
        match part {
            "" | "." => {}
            ".." => drop(way.pop()),
            part => way.push(part),
        }
    }
    format!("/{}", way.join("/"))
}

/// Writes a node down. Where `over` holds, it lies over something that is there already.
pub(super) fn emit(node: &Node, at: String, over: bool, steps: &mut Vec<Step>) {
    let make = !over;
    match node {
        Node::Folder { mode, children } => {
            match (at.is_empty(), over) {
                (true, _) => {}
                (false, true) => steps.push(Step::Cover { at: at.clone() }),
                (false, false) => steps.push(Step::Folder { at: at.clone(), mode: *mode }),
            }
            children.iter().for_each(|(name, child)| emit(child, format!("{at}/{name}"), false, steps));
        }
        Node::Symlink(target) => steps.push(Step::Symlink { at, target: target.clone() }),
        Node::Host { from, file, over: children } => {
            // Over another of this machine's folders it is only on the way to what lies over it, unless it is a file.
            if make || *file {
                steps.push(Step::Bind { from: from.clone(), at: at.clone(), file: *file, make });
            }
            children.iter().for_each(|(name, child)| emit(child, format!("{at}/{name}"), true, steps));
        }
        Node::Own { path, over } => {
            steps.push(Step::Own { path: path.clone(), at, file: false, make });
            let fixed = over.iter().map(|(at, number)| Step::Fixed { number: *number, at: at.clone(), make: false });
            steps.extend(fixed);
        }
        Node::OwnFile(path) => steps.push(Step::Own { path: path.clone(), at, file: true, make }),
        Node::Fixed(number) => steps.push(Step::Fixed { number: *number, at, make }),
    }
}
