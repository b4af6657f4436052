//! [`LabSettings`]: which nodes a lab has, and what they share.

use std::path::PathBuf;

use crate::{LabError, Link};

/// A switch has so many ports at most, and a machine so much memory for nodes.
const MOST_NODES: usize = 250;

/// What a lab is to be like.
#[derive(Clone, Debug)]
pub struct LabSettings {
    /// Its name; `None` means that nobody needs to know it.
    pub name: Option<String>,
    /// The link of each node to the switch.
    pub links: Vec<Link>,
    /// Directories that all nodes see where they are, although they are below `/tmp` or `/dev/shm`,
    /// which nodes have of their own. Everything that is elsewhere is shared anyway.
    pub shared: Vec<PathBuf>,
}

impl LabSettings {
    /// So many nodes, with links of this kind.
    pub fn new(nodes: usize, link: Link) -> Self {
        Self { name: None, links: vec![link; nodes], shared: Vec::new() }
    }

    /// The same with a directory that all nodes see.
    #[must_use]
    pub fn share(mut self, directory: impl Into<PathBuf>) -> Self {
        self.shared.push(directory.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let nodes = self.links.len();
        if !(1..=MOST_NODES).contains(&nodes) {
            let said = format!("a lab has 1 to {MOST_NODES} nodes, not {nodes}");
            return Err(LabError::Setting(said));
        }
        if let Some(name) = &self.name
            && !is_name(name)
        {
            return Err(LabError::Setting(format!(
                "'{name}' is no name for a lab: up to 40 letters, digits, '-' and '_'"
            )));
        }
        self.links.iter().try_for_each(Link::check)
    }
}

/// Whether a lab may have this name, which is also that of a directory.
pub(crate) fn is_name(name: &str) -> bool {
    let may = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=40).contains(&name.len()) && name.chars().all(may) && !name.starts_with('-')
}
