//! [`Findings`]: what is noticed while a file is described, and how much memory that may take.

use super::Unrepresented;
use super::definition::GroupDefinition;
use crate::model::{Class, Datatype, Name};
use crate::{Error, Reason, Result, Structure};

/// How often a description may keep each byte of a file: one type may be that of many objects.
const TIMES: u64 = 8;
/// What it may keep of any file.
const AT_LEAST: u64 = 1 << 20;

/// What netCDF has no place for, what a commit would lose, and the budget of bytes.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) unrepresented: Vec<Unrepresented>,
    pub(super) lost: Vec<String>,
    limit: u64,
    kept: u64,
}

impl Findings {
    /// For a file of that many bytes.
    pub(super) fn new(length: u64) -> Self {
        let limit = length.saturating_mul(TIMES).saturating_add(AT_LEAST);
        Self { unrepresented: Vec::new(), lost: Vec::new(), limit, kept: 0 }
    }

    /// Counts bytes that are kept.
    pub(super) fn keep(&mut self, bytes: u64) -> Result<()> {
        self.kept = self.kept.saturating_add(bytes);
        if self.kept <= self.limit {
            return Ok(());
        }
        let (what, found, limit) = ("bytes of definitions", self.kept, self.limit);
        Err(Error::of(Structure::File, Reason::Limit { what, found, limit }))
    }

    /// Notes what netCDF has no place for.
    pub(super) fn unrepresented(&mut self, path: Name, reason: String) -> Result<()> {
        self.keep(path.len() as u64 + reason.len() as u64)?;
        self.unrepresented.push(Unrepresented { path, reason });
        Ok(())
    }

    /// Notes what a commit would not write again.
    pub(super) fn lost(&mut self, what: String) -> Result<()> {
        self.keep(what.len() as u64)?;
        self.lost.push(what);
        Ok(())
    }
}

/// The path of an object of a group.
pub(super) fn path(groups: &[GroupDefinition], group: usize, name: &Name) -> Name {
    let mut parts = vec![name.as_bytes()];
    let mut at = group;
    while at != 0 {
        let Some(one) = groups.get(at) else { break };
        parts.push(one.name.as_bytes());
        at = one.parent;
    }
    let mut path = Vec::new();
    for part in parts.into_iter().rev().filter(|part| !part.is_empty()) {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Name::from(path)
}

/// The path of an attribute of an object.
pub(super) fn attribute_path(object: &Name, attribute: &Name) -> Name {
    Name::from([object.as_bytes(), b"@", attribute.as_bytes()].concat())
}

/// About how many bytes a type takes in memory.
pub(super) fn weight(datatype: &Datatype) -> u64 {
    const NODE: u64 = 64;
    NODE + match &datatype.class {
        Class::Compound { members } => {
            let one =
                |member: &crate::model::Member| member.name.len() as u64 + weight(&member.datatype);
            members.iter().map(one).sum()
        }
        Class::Enumeration { members, .. } => {
            members.iter().map(|one| (one.name.len() + one.value.len()) as u64 + NODE).sum()
        }
        Class::Sequence { base } | Class::Array { base, .. } => weight(base),
        Class::Opaque { tag } => tag.len() as u64,
        _ => 0,
    }
}
