//! [`FastPlace`]: a directory of fast storage, and the destinations that its rules allow.
//!
//! Journals there make this process write files. So only the user of the process may write to the
//! fast place, only that user may look into its directory `.striate-moves`
//! ([`trust`](crate::trust)), and a file goes only below a directory that a rule for this place
//! names.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::Rule;
use crate::dentry::Directory;
use crate::trust::{self, UntrustedPath};

/// The directory beneath a fast place.
pub(crate) const MOVES: &str = ".striate-moves";

/// See the module.
#[derive(Debug)]
pub(crate) struct FastPlace {
    /// As the rules say it.
    to: PathBuf,
    /// Without links, once it was checked. No other user can change that.
    believed: OnceLock<PathBuf>,
    /// Whether the directory beneath it was checked: then no other user can have replaced it.
    is_private: AtomicBool,
    /// The directories whose files may be here, as the rules say them.
    from: Vec<PathBuf>,
    /// Without links, once they exist.
    resolved: Vec<OnceLock<PathBuf>>,
    /// Why nothing was made here, if it was to be.
    refusal: OnceLock<String>,
}

impl FastPlace {
    pub(crate) fn new(to: &Path, from: &[PathBuf]) -> Arc<Self> {
        Arc::new(Self {
            to: to.to_path_buf(),
            believed: OnceLock::new(),
            is_private: AtomicBool::new(false),
            from: from.to_vec(),
            resolved: from.iter().map(|_| OnceLock::new()).collect(),
            refusal: OnceLock::new(),
        })
    }

    /// All that rules name.
    pub(crate) fn of_rules(rules: &[Rule]) -> Vec<Arc<Self>> {
        let mut names: Vec<_> = rules.iter().map(|rule| &rule.to).collect();
        names.sort();
        names.dedup();
        let place = |to: &PathBuf| {
            let rules = rules.iter().filter(|rule| rule.to == *to);
            Self::new(to, &rules.map(|rule| rule.from.clone()).collect::<Vec<_>>())
        };
        names.into_iter().map(place).collect()
    }

    /// As the rules say it.
    pub(crate) fn to(&self) -> &Path {
        &self.to
    }

    /// An error if it exists and is not trusted.
    pub(crate) fn check(&self) -> Result<(), UntrustedPath> {
        match self.moves() {
            Err(distrust) if !distrust.is_absent() => Err(distrust),
            _ => Ok(()),
        }
    }

    /// Where the files are. The place is trusted; so is the directory, if it exists.
    pub(crate) fn moves(&self) -> Result<PathBuf, UntrustedPath> {
        let place = if let Some(place) = self.believed.get() {
            place
        } else {
            let place = trust::check_directory(&self.to)?;
            self.believed.get_or_init(|| place)
        };
        let moves = place.join(MOVES);
        if !self.is_private.load(Ordering::Relaxed) {
            match trust::check_private(&moves) {
                Ok(()) => self.is_private.store(true, Ordering::Relaxed),
                // Its maker is this user.
                Err(distrust) if distrust.is_absent() => {}
                Err(distrust) => return Err(distrust),
            }
        }
        Ok(moves)
    }

    /// Why nothing was created here, although it should have been: the place was not trusted.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// Where the files are; what does not exist is created.
    pub(crate) fn make(&self) -> Result<PathBuf, UntrustedPath> {
        self.try_make().inspect_err(|distrust| {
            self.refusal.get_or_init(|| distrust.to_string());
        })
    }

    fn try_make(&self) -> Result<PathBuf, UntrustedPath> {
        let moves = match self.moves() {
            Err(distrust) if distrust.is_absent() => {
                let _ = DirBuilder::new().recursive(true).mode(0o700).create(&self.to);
                self.moves()?
            }
            moves => moves?,
        };
        if DirBuilder::new().mode(0o700).create(&moves).is_ok() {
            // Whatever the mask of the process takes away.
            let _ = std::fs::set_permissions(&moves, PermissionsExt::from_mode(0o700));
        }
        Ok(moves)
    }

    /// Whether files in a directory, which is known by its descriptor, may be here and go back
    /// there.
    pub(crate) fn covers(&self, directory: &Directory) -> bool {
        self.is_below(directory.path())
    }

    /// The same for a path without links.
    pub(crate) fn is_below(&self, path: &Path) -> bool {
        self.from.iter().zip(&self.resolved).any(|(from, resolved)| {
            let known = resolved.get().cloned().or_else(|| {
                let found = std::fs::canonicalize(from).ok()?;
                Some(resolved.get_or_init(|| found).clone())
            });
            known.is_some_and(|from| path.starts_with(from))
        })
    }

    /// The directories whose files may be here, for people.
    pub(crate) fn sources(&self) -> String {
        let names: Vec<_> = self.from.iter().map(|from| from.display().to_string()).collect();
        names.join(", ")
    }
}
