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
//! paths = ["*.nc"]       # the files for this stage, out of those above
//! block = "4MiB"         # options of the kind of stage
//! ```

use std::path::Path;

use serde::Deserialize;
use thiserror::Error;
use toml::Table;

use crate::classification::Classification;
use crate::route::Paths;
use crate::stack::{MOST_STAGES, Placed, Stack};
use crate::stage::Stage;

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

/// The files that a stack or a stage is for, as they are written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedPaths {
    /// Those that are meant; all if there are none.
    pub include: Option<Vec<String>>,
    /// Of these, those that are not.
    #[serde(default)]
    pub exclude: Vec<String>,
}

impl PlannedPaths {
    fn build(&self) -> Result<Paths, String> {
        Paths::new(self.include.as_deref(), &self.exclude)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    paths: Option<PlannedPaths>,
    #[serde(default)]
    stage: Vec<Table>,
}

/// A type of stage: its name in configurations and its constructor.
#[derive(Debug)]
pub struct StageType {
    /// Its name in configurations.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// How the stage is classified.
    pub classification: Classification,
    /// Makes one, from its table in the configuration.
    pub build: fn(Table) -> Result<Box<dyn Stage>, String>,
}

/// The stage types that a configuration may name.
#[derive(Debug)]
pub struct StageTable {
    /// All of them.
    pub types: &'static [StageType],
    /// Says what is wrong with stages in this order, by their names, if anything is.
    pub check_order: fn(&[&str]) -> Result<(), String>,
}

impl StageTable {
    /// The stage type of a name.
    pub fn stage_type(&self, name: &str) -> Option<&'static StageType> {
        self.types.iter().find(|stage_type| stage_type.name == name)
    }
}

/// A stack that is described but not yet built.
#[derive(Debug)]
pub struct Configuration {
    planned_paths: PlannedPaths,
    paths: Paths,
    table: &'static StageTable,
    stages: Vec<PlannedStage>,
}

/// A stage that is described.
#[derive(Clone, Debug)]
pub struct PlannedStage {
    /// Its type.
    pub stage_type: &'static StageType,
    /// Of the files of the stack, those that it is for.
    pub planned_paths: PlannedPaths,
    paths: Paths,
    /// What else the file says about it.
    pub options: Table,
}

impl Configuration {
    /// Reads a file.
    pub fn read(path: &Path, table: &'static StageTable) -> Result<Self, ConfigurationError> {
        let text = std::fs::read_to_string(path);
        let unreadable =
            |error| ConfigurationError::Unreadable { path: path.display().to_string(), error };
        Self::parse(&text.map_err(unreadable)?, table)
    }

    /// Reads a text.
    pub fn parse(text: &str, table: &'static StageTable) -> Result<Self, ConfigurationError> {
        let document: Document = toml::from_str(text)?;
        let planned_paths = document.paths.unwrap_or_else(|| PlannedPaths {
            include: None,
            exclude: SYSTEM_PATHS.iter().map(|text| (*text).to_owned()).collect(),
        });
        let paths = planned_paths
            .build()
            .map_err(|reason| ConfigurationError::Paths { place: "[paths]".into(), reason })?;
        if document.stage.len() > MOST_STAGES {
            let count = document.stage.len();
            return Err(ConfigurationError::Nonsense(format!(
                "{count} stages, but at most {MOST_STAGES} are possible"
            )));
        }
        let stages = document.stage.into_iter().enumerate();
        let stages = stages.map(|(index, options)| PlannedStage::read(index + 1, options, table));
        let stages = stages.collect::<Result<_, _>>()?;
        let configuration = Self { planned_paths, paths, table, stages };
        // What cannot be built is not a configuration.
        configuration.build_stages()?;
        check_order(table, &configuration.stages)?;
        Ok(configuration)
    }

    /// The files it is for.
    pub const fn paths(&self) -> &PlannedPaths {
        &self.planned_paths
    }

    /// Its stages, in their order.
    pub fn stages(&self) -> &[PlannedStage] {
        &self.stages
    }

    /// This stack above another: calls pass through its stages first. Each stage keeps the files
    /// that it is for.
    pub fn above(&self, base: &Self) -> Result<Self, ConfigurationError> {
        let stages = [self, base].into_iter().flat_map(|configuration| {
            configuration.stages.iter().cloned().map(|mut stage| {
                stage.paths = stage.paths.among(configuration.paths.clone());
                stage
            })
        });
        let stages: Vec<PlannedStage> = stages.collect();
        if stages.len() > MOST_STAGES {
            let count = stages.len();
            return Err(ConfigurationError::Nonsense(format!(
                "{count} stages, but at most {MOST_STAGES} are possible"
            )));
        }
        check_order(self.table, &stages)?;
        let (planned_paths, paths) = (PlannedPaths::default(), Paths::all());
        Ok(Self { planned_paths, paths, table: self.table, stages })
    }

    /// Builds the stack.
    pub fn build(&self) -> Result<Stack, ConfigurationError> {
        Ok(Stack::new(self.paths.clone(), self.build_stages()?))
    }

    /// The stages by name, with what is said of them.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, &Table)> {
        self.stages.iter().map(|stage| (stage.stage_type.name, &stage.options))
    }

    fn build_stages(&self) -> Result<Vec<Placed>, ConfigurationError> {
        let build = |(place, planned): (usize, &PlannedStage)| {
            let stage_type = planned.stage_type;
            let stage = (stage_type.build)(planned.options.clone()).map_err(|reason| {
                ConfigurationError::Stage {
                    number: place + 1,
                    kind: stage_type.name.into(),
                    reason,
                }
            })?;
            Ok(Placed { name: stage_type.name, paths: planned.paths.clone(), stage })
        };
        self.stages.iter().enumerate().map(build).collect()
    }
}

fn check_order(table: &StageTable, stages: &[PlannedStage]) -> Result<(), ConfigurationError> {
    let names: Vec<_> = stages.iter().map(|stage| stage.stage_type.name).collect();
    (table.check_order)(&names).map_err(ConfigurationError::Nonsense)
}

impl PlannedStage {
    fn read(
        number: usize,
        mut options: Table,
        table: &'static StageTable,
    ) -> Result<Self, ConfigurationError> {
        let name = match options.remove("kind") {
            Some(toml::Value::String(name)) => name,
            _ => "?".into(),
        };
        let failed =
            |reason: String| ConfigurationError::Stage { number, kind: name.clone(), reason };
        let stage_type = table.stage_type(&name).ok_or_else(|| {
            let known: Vec<_> = table.types.iter().map(|stage_type| stage_type.name).collect();
            failed(format!("no such kind; there are {}", known.join(", ")))
        })?;
        let mut list = |key: &str| match options.remove(key) {
            None => Ok(None),
            Some(value) => value.try_into::<Vec<String>>().map(Some),
        };
        let include = list("paths").map_err(|error| failed(format!("paths: {error}")))?;
        let exclude = list("exclude").map_err(|error| failed(format!("exclude: {error}")))?;
        let planned_paths = PlannedPaths { include, exclude: exclude.unwrap_or_default() };
        let paths = planned_paths.build().map_err(failed)?;
        Ok(Self { stage_type, planned_paths, paths, options })
    }
}
