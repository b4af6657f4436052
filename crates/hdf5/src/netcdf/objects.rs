//! [`Objects`]: the groups, committed types and datasets of a file, in netCDF-C's order.
//!
//! Links are in the order of creation if the group tracks that, else by name. All objects of a
//! group come before those of the groups in it. Only hard links are followed, and only the first to
//! each object: others are named.

use std::collections::HashSet;

use super::AtomicType;
use super::class::{check_user_type, name};
use super::definition::{GroupDefinition, TypeDefinition};
use super::findings::{Findings, path, weight};
use super::hidden::{ATTACHED, NUMBERED};
use crate::dataset::Dataset;
use crate::file::File;
use crate::model::{Address, Attribute, Link, LinkTarget, MessageKind, Name, Object, ObjectKind};
use crate::{Error, Reason, Result, Source};

/// The objects of a file.
#[derive(Debug)]
pub(super) struct Objects {
    /// Without attributes yet.
    pub(super) groups: Vec<GroupDefinition>,
    /// The header of each group.
    pub(super) group_headers: Vec<Object>,
    pub(super) types: Vec<TypeDefinition>,
    pub(super) datasets: Vec<FoundDataset>,
}

/// A dataset. Its header is decoded when it is found, while it is in the processor's cache, and not
/// kept.
#[derive(Debug)]
pub(super) struct FoundDataset {
    pub(super) group: usize,
    /// The name of its link.
    pub(super) name: Name,
    pub(super) address: Address,
    /// In netCDF's order; without attached scales if its dimensions have numbers.
    pub(super) attributes: Vec<Attribute>,
    /// What its header says, or why that cannot be represented.
    pub(super) dataset: std::result::Result<Dataset, String>,
    /// Messages of the header that are not written again, as sentences.
    pub(super) unwritten: Vec<String>,
}

/// A group whose links are not yet read.
struct PendingGroup {
    parent: usize,
    name: Name,
    object: Object,
}

impl Objects {
    /// Walks through all groups.
    pub(super) fn read<S: Source>(file: &File<S>, findings: &mut Findings) -> Result<Self> {
        let mut objects = Self {
            groups: Vec::new(),
            group_headers: Vec::new(),
            types: Vec::new(),
            datasets: Vec::new(),
        };
        let root = file.root()?;
        let mut seen = HashSet::from([root.address]);
        let mut pending = vec![PendingGroup { parent: 0, name: Name::default(), object: root }];
        while let Some(PendingGroup { parent, name, object }) = pending.pop() {
            let group = objects.groups.len();
            let links = file.links(&object)?;
            objects.groups.push(GroupDefinition { name, parent, attributes: Vec::new() });
            for what in unwritten(&object, &|| objects.path(group, &Name::default())) {
                findings.lost(what)?;
            }
            objects.group_headers.push(object);
            let mut children = objects.links(file, group, links, &mut seen, findings)?;
            // The first one is the next.
            children.reverse();
            pending.extend(children);
        }
        objects.check_types(findings)?;
        Ok(objects)
    }

    fn path(&self, group: usize, name: &Name) -> Name {
        path(&self.groups, group, name)
    }

    /// Adds what the links of a group lead to; returns the groups among it.
    fn links<S: Source>(
        &mut self,
        file: &File<S>,
        group: usize,
        links: Vec<Link>,
        seen: &mut HashSet<Address>,
        findings: &mut Findings,
    ) -> Result<Vec<PendingGroup>> {
        let mut children = Vec::new();
        self.datasets.reserve(links.len());
        for link in links {
            let name = link.name;
            findings.keep(name.len() as u64)?;
            let address = match link.target {
                LinkTarget::Hard(address) => address,
                other => {
                    findings.unrepresented(self.path(group, &name), link_reason(&other))?;
                    continue;
                }
            };
            if !seen.insert(address) {
                let reason = "is another link to an object that has one".into();
                findings.unrepresented(self.path(group, &name), reason)?;
                continue;
            }
            let object = file.object(address)?;
            match object.kind {
                ObjectKind::Group => children.push(PendingGroup { parent: group, name, object }),
                ObjectKind::Dataset => {
                    let found = self.dataset(file, group, name, &object, findings)?;
                    file.reuse(object);
                    self.datasets.push(found);
                }
                ObjectKind::Datatype => self.committed(file, group, name, &object, findings)?,
            }
        }
        Ok(children)
    }

    fn dataset<S: Source>(
        &self,
        file: &File<S>,
        group: usize,
        name: Name,
        object: &Object,
        findings: &mut Findings,
    ) -> Result<FoundDataset> {
        let stored = object.header.messages.iter().map(|message| message.body.len() as u64);
        findings.keep(stored.sum())?;
        let attributes = file.attributes_unless(object, ATTACHED, NUMBERED)?;
        for one in &attributes {
            findings.keep(weight(&one.datatype) + (one.name.len() + one.value.len()) as u64)?;
        }
        let dataset = match file.dataset(object) {
            Ok(dataset) => {
                findings.keep(2 * weight(&dataset.datatype))?;
                Ok(dataset)
            }
            Err(Error {
                reason: reason @ (Reason::Unsupported(_) | Reason::Version(_)), ..
            }) => Err(reason.to_string()),
            Err(error) => return Err(error),
        };
        let unwritten = unwritten(object, &|| self.path(group, &name));
        let address = object.address;
        Ok(FoundDataset { group, name, address, attributes, dataset, unwritten })
    }

    fn committed<S: Source>(
        &mut self,
        file: &File<S>,
        group: usize,
        name: Name,
        object: &Object,
        findings: &mut Findings,
    ) -> Result<()> {
        let path = self.path(group, &name);
        for what in unwritten(object, &|| path.clone()) {
            findings.lost(what)?;
        }
        if !file.attributes(object)?.is_empty() {
            findings.unrepresented(path, "attributes of a type".into())?;
        }
        let mut datatype = file.committed_datatype(object)?;
        datatype.committed = None;
        findings.keep(weight(&datatype))?;
        self.types.push(TypeDefinition { group, name, datatype });
        Ok(())
    }

    /// Takes types out that are none of netCDF.
    fn check_types(&mut self, findings: &mut Findings) -> Result<()> {
        let mut refused = Vec::new();
        for (number, one) in self.types.iter().enumerate() {
            let checked = match AtomicType::of(&one.datatype) {
                Some(_) => Err(format!("is a named type of {}", name(&one.datatype))),
                None => check_user_type(&self.types, &one.datatype),
            };
            if let Err(reason) = checked {
                refused.push(number);
                findings.unrepresented(self.path(one.group, &one.name), reason)?;
            }
        }
        let mut number = 0;
        self.types.retain(|_| {
            number += 1;
            refused.binary_search(&(number - 1)).is_err()
        });
        Ok(())
    }
}

fn link_reason(target: &LinkTarget) -> String {
    match target {
        LinkTarget::Hard(_) => "is a hard link".into(),
        LinkTarget::Soft(path) => format!("is a soft link to \"{path}\""),
        LinkTarget::External { file, path } => {
            format!("is a link to \"{path}\" in another file, \"{file}\"")
        }
        LinkTarget::UserDefined { class, .. } => format!("is a user-defined link of class {class}"),
    }
}

/// The messages of a header that are not written again, as sentences.
fn unwritten(object: &Object, path: &dyn Fn() -> Name) -> Vec<String> {
    const WRITTEN: [MessageKind; 16] = [
        MessageKind::NIL,
        MessageKind::DATASPACE,
        MessageKind::LINK_INFO,
        MessageKind::DATATYPE,
        MessageKind::FILL_VALUE_OLD,
        MessageKind::FILL_VALUE,
        MessageKind::LINK,
        MessageKind::EXTERNAL_FILES,
        MessageKind::LAYOUT,
        MessageKind::GROUP_INFO,
        MessageKind::FILTER_PIPELINE,
        MessageKind::ATTRIBUTE,
        MessageKind::SYMBOL_TABLE,
        MessageKind::ATTRIBUTE_INFO,
        MessageKind::MODIFICATION_TIME_OLD,
        MessageKind::MODIFICATION_TIME,
    ];
    let mut sentences = Vec::new();
    for message in &object.header.messages {
        if message.kind == MessageKind::COMMENT {
            sentences.push(format!("\"{}\" has a comment", path()));
        } else if message.kind != MessageKind::REFERENCE_COUNT && !WRITTEN.contains(&message.kind) {
            sentences.push(format!("\"{}\" has a message of kind {}", path(), message.kind));
        }
    }
    sentences
}
