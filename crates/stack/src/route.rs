//! [`Route`]: the stages that want operations on a file, by kind; [`FileRoutes`]: both routes of an
//! open file; [`Paths`]: the files of a stack or a stage.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use striate_calls::{Kind, Kinds};

/// For each kind of operation the stages that want it, as bits in the order of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route([u32; Kind::COUNT]);

/// The routes of an open file.
#[derive(Debug)]
pub(crate) struct FileRoutes {
    /// All stages that want it.
    pub(crate) full: Route,
    /// What is left when other processes may see the file: stages that hold something back see
    /// only what they have to learn of shared files.
    pub(crate) open_to_others: Route,
}

impl Route {
    /// No stage wants anything.
    pub const NONE: Self = Self([0; Kind::COUNT]);

    /// Adds a stage.
    pub(crate) fn add(&mut self, stage: usize, kinds: Kinds) {
        for kind in kinds.iter() {
            self.0[kind as usize] |= 1 << stage;
        }
    }

    /// The stages that want a kind.
    #[inline]
    pub(crate) fn stages(&self, kind: Kind) -> u32 {
        self.0[kind as usize]
    }

    /// Whether any stage wants a kind.
    #[inline]
    pub fn wants(&self, kind: Kind) -> bool {
        self.stages(kind) != 0
    }

    /// The kinds that any stage wants.
    pub fn kinds(&self) -> Kinds {
        let wanted = Kind::ALL.into_iter().filter(|kind| self.wants(*kind));
        wanted.fold(Kinds::NONE, |kinds, kind| kinds.or(Kinds::of(&[kind])))
    }

    /// Whether no stage wants anything.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|stages| *stages == 0)
    }

    /// The stages that both want, for an operation on two names.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (stages, more) in both.0.iter_mut().zip(&other.0) {
            *stages |= more;
        }
        both
    }
}

/// Which paths are meant: those below one that is included, or that match its pattern, without
/// those that are excluded in the same way.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `None`: all.
    include: Option<Rules>,
    exclude: Rules,
    /// Of these they are a part.
    of: Option<Arc<Self>>,
}

#[derive(Clone, Debug)]
struct Rules {
    /// Without a slash at the end.
    prefixes: Vec<Vec<u8>>,
    patterns: GlobSet,
}

impl Rules {
    fn new(texts: &[String]) -> Result<Self, String> {
        let mut prefixes = Vec::new();
        let mut patterns = GlobSetBuilder::new();
        for text in texts {
            if text.contains(['*', '?', '[', '{']) {
                let from_anywhere = format!("**/{text}");
                let text = if text.starts_with('/') { text } else { &from_anywhere };
                let glob = GlobBuilder::new(text).literal_separator(true).build();
                patterns.add(glob.map_err(|error| error.to_string())?);
            } else if text.starts_with('/') {
                let prefix: PathBuf = Path::new(text).components().collect();
                let prefix = prefix.into_os_string().into_vec();
                prefixes.push(if prefix == b"/" { Vec::new() } else { prefix });
            } else {
                return Err(format!("{text:?} is neither an absolute path nor a pattern"));
            }
        }
        let patterns = patterns.build().map_err(|error| error.to_string())?;
        Ok(Self { prefixes, patterns })
    }

    fn cover(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        // Paths here have no `.` and no `//`, so comparing their bytes is correct, and faster than
        // comparing components.
        let below = |prefix: &Vec<u8>| {
            bytes
                .strip_prefix(prefix.as_slice())
                .is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        self.prefixes.iter().any(below) || !self.patterns.is_empty() && self.patterns.is_match(path)
    }
}

impl Paths {
    /// All there are.
    pub fn all() -> Self {
        let exclude = Rules { prefixes: Vec::new(), patterns: GlobSet::empty() };
        Self { include: None, exclude, of: None }
    }

    /// Those that `include` covers (all if there is none) and `exclude` does not. Each is an
    /// absolute path, which stands for all below it, or a pattern (`*.nc`, `/scratch/**/plot_*`).
    pub fn new(include: Option<&[String]>, exclude: &[String]) -> Result<Self, String> {
        let include = include.map(Rules::new).transpose()?;
        Ok(Self { include, exclude: Rules::new(exclude)?, of: None })
    }

    /// Whether an absolute path is meant.
    pub fn cover(&self, path: &Path) -> bool {
        self.include.as_ref().is_none_or(|rules| rules.cover(path))
            && !self.exclude.cover(path)
            && self.of.as_ref().is_none_or(|others| others.cover(path))
    }

    /// Those that others cover as well.
    #[must_use]
    pub fn among(self, others: Self) -> Self {
        let others = match self.of {
            Some(of) => (*of).clone().among(others),
            None => others,
        };
        Self { of: Some(Arc::new(others)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_kinds_of_a_route_are_those_of_its_stages() {
        let mut route = Route::NONE;
        assert_eq!(route.kinds(), Kinds::NONE);
        let (some, others) = (Kinds::of(&[Kind::Read, Kind::Notice]), Kinds::of(&[Kind::Open]));
        route.add(3, some);
        assert_eq!(route.kinds(), some);
        route.add(31, others);
        assert_eq!(route.kinds(), some.or(others));
    }

    #[test]
    fn paths_are_prefixes_and_patterns() {
        let include = texts(&["/scratch/", "*.nc", "/work/*/out"]);
        let paths = Paths::new(Some(&include), &texts(&["/scratch/lib", "*.so*"])).unwrap();
        for (path, covered) in [
            ("/scratch/a/b", true),
            ("/scratch", true),
            ("/scratchy/a", false),
            ("/scratch/lib/a", false),
            ("/scratch/liberty", true),
            ("/scratch/a/libm.so.6", false),
            ("/home/x/data.nc", true),
            ("/work/x/out", true),
            ("/work/x/y/out", false),
            ("/work/x", false),
        ] {
            assert_eq!(paths.cover(Path::new(path)), covered, "{path}");
        }
        assert!(Paths::all().cover(Path::new("/")));
        assert!(Paths::new(Some(&[]), &[]).is_ok_and(|none| !none.cover(Path::new("/a"))));
        for wrong in ["relative/path", "a[", ""] {
            assert!(Paths::new(None, &texts(&[wrong])).is_err(), "{wrong}");
        }
    }
}
