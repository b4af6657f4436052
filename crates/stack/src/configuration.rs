//! [`Configuration`]: a stack as a TOML file.
//!
//! ```toml
//! # Files that stages may see: absolute paths (all below them) or patterns. Without this table, all but
//! # those of the system.
//! [paths]
//! include = ["/scratch"]
//! exclude = ["*.log"]
//!
//! [[stage]]
//! kind = "count"
//!
//! [[stage]]
//! kind = "write-back"
//! paths = ["*.nc"]       # of those above, the ones for this stage
//! block = "4MiB"         # what the kind of stage has to say
//! ```

use std::path::Path;

use serde::Deserialize;
use thiserror::Error;
use toml::Table;

use crate::route::Paths;
use crate::stack::{MOST_STAGES, Placed, Stack};
use crate::stages;

/// What programs open that is not their data: no stage sees it unless the paths are said.
pub const SYSTEM_PATHS: &[&str] = &[
    "/bin",
    "/boot",
    "/dev/[!s]*/**",
    "/dev/*",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt/**/*.so*",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/lib",
    // What MPIs and shared memory leave behind.
    "/dev/shm/{vader_segment,sem.,mpich_,psm,ucx_,striate-}*",
    "/tmp/{ompi.,openmpi-sessions-,pmix-,prte.}*/**",
];

/// Why a configuration is not one.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not TOML, or has what is not known.
    #[error("{0}")]
    Malformed(#[from] toml::de::Error),
    /// Something about paths.
    #[error("{place}: {reason}")]
    Paths {
        /// Where in the file.
        place: String,
        /// What.
        reason: String,
    },
    /// Something about a stage.
    #[error("stage {number} ({kind}): {reason}")]
    Stage {
        /// Which, from 1.
        number: usize,
        /// Its kind.
        kind: String,
        /// What.
        reason: String,
    },
    /// Something about all of it.
    #[error("{0}")]
    Nonsense(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathsText {
    include: Option<Vec<String>>,
    #[serde(default)]
    exclude: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    paths: Option<PathsText>,
    #[serde(default)]
    stage: Vec<Table>,
}

/// A stack that is described but not yet built.
#[derive(Debug)]
pub struct Configuration {
    paths: Paths,
    stages: Vec<Planned>,
}

/// A stage that is described.
#[derive(Debug)]
struct Planned {
    sort: &'static stages::Sort,
    paths: Paths,
    options: Table,
}

impl Configuration {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let text = std::fs::read_to_string(path);
        let unreadable =
            |error| ConfigurationError::Unreadable { path: path.display().to_string(), error };
        Self::parse(&text.map_err(unreadable)?)
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        let document: Document = toml::from_str(text)?;
        let paths = match document.paths {
            None => Paths::new(None, &SYSTEM_PATHS.map_owned()),
            Some(paths) => Paths::new(paths.include.as_deref(), &paths.exclude),
        };
        let paths = paths
            .map_err(|reason| ConfigurationError::Paths { place: "[paths]".into(), reason })?;
        if document.stage.len() > MOST_STAGES {
            let count = document.stage.len();
            return Err(ConfigurationError::Nonsense(format!(
                "{count} stages: {MOST_STAGES} are the most"
            )));
        }
        let stages = document.stage.into_iter().enumerate();
        let stages = stages.map(|(place, table)| Planned::read(place + 1, table));
        let configuration = Self { paths, stages: stages.collect::<Result<_, _>>()? };
        // What cannot be built is not a configuration.
        configuration.build_stages()?;
        stages::check_order(
            &configuration.stages.iter().map(|stage| stage.sort.name).collect::<Vec<_>>(),
        )
        .map_err(ConfigurationError::Nonsense)?;
        Ok(configuration)
    }

    /// Builds the stack.
    pub fn build(&self) -> Result<Stack, ConfigurationError> {
        Ok(Stack::new(self.paths.clone(), self.build_stages()?))
    }

    fn build_stages(&self) -> Result<Vec<Placed>, ConfigurationError> {
        let build = |(place, planned): (usize, &Planned)| {
            let sort = planned.sort;
            let stage = (sort.build)(planned.options.clone()).map_err(|reason| {
                ConfigurationError::Stage { number: place + 1, kind: sort.name.into(), reason }
            })?;
            Ok(Placed { name: sort.name, paths: planned.paths.clone(), stage })
        };
        self.stages.iter().enumerate().map(build).collect()
    }
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

impl Planned {
    fn read(number: usize, mut table: Table) -> Result<Self, ConfigurationError> {
        let name = match table.remove("kind") {
            Some(toml::Value::String(name)) => name,
            _ => "?".into(),
        };
        let failed =
            |reason: String| ConfigurationError::Stage { number, kind: name.clone(), reason };
        let sort = stages::sort(&name).ok_or_else(|| {
            let known: Vec<_> = stages::SORTS.iter().map(|sort| sort.name).collect();
            failed(format!("no such kind; there are {}", known.join(", ")))
        })?;
        let mut list = |key: &str| match table.remove(key) {
            None => Ok(None),
            Some(value) => value.try_into::<Vec<String>>().map(Some),
        };
        let include = list("paths").map_err(|error| failed(format!("paths: {error}")))?;
        let exclude = list("exclude").map_err(|error| failed(format!("exclude: {error}")))?;
        let paths = Paths::new(include.as_deref(), &exclude.unwrap_or_default()).map_err(failed)?;
        Ok(Self { sort, paths, options: table })
    }
}
