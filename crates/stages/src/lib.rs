//! The stages, the table that turns a configuration into stages ([`STAGE_TABLE`]), and [`recover`]
//! for what they leave.
//!
//! One module is one stage, and its comment is the stage's reference: what it does, its options,
//! what programs observe, and its limits. [`parse_stack`] and [`read_stack`] read a configuration
//! of these stages. A new stage is a module and an entry of the table. Modules that several stages
//! use: `dentry` and `trust` (names and files that may be acted upon), `position` (offsets instead
//! of positions), `inodes` (state per inode), `options` and `size` (values in configurations).

mod align;
pub mod combine;
mod count;
mod dentry;
mod fault;
mod inodes;
mod options;
pub mod path_rewrite;
mod position;
mod read_ahead;
pub mod recover;
mod seek_free;
mod size;
mod threads;
mod throttle;
mod trace;
mod transfer;
mod trust;
mod umask;
mod write_back;

use std::path::Path;

use striate_stack::{Configuration, ConfigurationError, StageTable, StageType};

pub use self::combine::is_own_log;

/// All stage types, with the check of their order.
pub static STAGE_TABLE: StageTable = StageTable { types: STAGE_TYPES, check_order };

static STAGE_TYPES: &[StageType] = &[
    StageType {
        name: "count",
        about: "counts calls, errors, bytes, lengths and times",
        classification: count::CLASSIFICATION,
        build: count::Count::build,
    },
    StageType {
        name: "trace",
        about: "records every call, to be looked at and repeated",
        classification: trace::CLASSIFICATION,
        build: trace::Recorder::build,
    },
    StageType {
        name: "write-back",
        about: "collects writes in memory and writes whole blocks",
        classification: write_back::CLASSIFICATION,
        build: write_back::build,
    },
    StageType {
        name: "read-ahead",
        about: "reads more than was asked for when the next reads can be predicted",
        classification: read_ahead::CLASSIFICATION,
        build: read_ahead::build,
    },
    StageType {
        name: "align",
        about: "cuts reads and writes at multiples of a stripe",
        classification: align::CLASSIFICATION,
        build: align::build,
    },
    StageType {
        name: "combine",
        about: "holds small files beyond their close and writes them out many at a time",
        classification: combine::CLASSIFICATION,
        build: combine::build,
    },
    StageType {
        name: "path-rewrite",
        about: "makes files at a fast place and moves them to their destination after their close",
        classification: path_rewrite::CLASSIFICATION,
        build: path_rewrite::build,
    },
    StageType {
        name: "throttle",
        about: "makes requests take as long as on slower storage",
        classification: throttle::CLASSIFICATION,
        build: throttle::Throttle::build,
    },
    StageType {
        name: "fault",
        about: "lets operations fail, or move fewer bytes than asked for",
        classification: fault::CLASSIFICATION,
        build: fault::Fault::build,
    },
    StageType {
        name: "seek-free",
        about: "turns all reads and writes into one sequential stream; destroys files",
        classification: seek_free::CLASSIFICATION,
        build: seek_free::build,
    },
];

/// Stages of which several in a row make sense: each may be for other operations.
const MAY_REPEAT: &[&str] = &["throttle", "fault"];

/// Stages that keep files elsewhere, in the only order that works: a stage that buffers whole files
/// comes before one that creates them elsewhere.
const OF_NAMES: &[&str] = &["combine", "path-rewrite"];

/// Stages that know files by what the kernel says they are: they come after those that change that.
const OF_BYTES: &[&str] = &["write-back", "read-ahead", "align", "seek-free"];

/// The stage type of a name.
pub fn stage_type(name: &str) -> Option<&'static StageType> {
    STAGE_TABLE.stage_type(name)
}

/// Reads a file that describes a stack of these stages.
pub fn read_stack(path: &Path) -> Result<Configuration, ConfigurationError> {
    Configuration::read(path, &STAGE_TABLE)
}

/// Reads a text that describes a stack of these stages.
pub fn parse_stack(text: &str) -> Result<Configuration, ConfigurationError> {
    Configuration::parse(text, &STAGE_TABLE)
}

/// Says what is wrong with stages in this order, if anything is.
fn check_order(names: &[&str]) -> Result<(), String> {
    let mut pairs = names.windows(2);
    if let Some([name, ..]) =
        pairs.find(|pair| pair[0] == pair[1] && !MAY_REPEAT.contains(&pair[0]))
    {
        return Err(format!("two stages {name} in a row: the second does nothing new"));
    }
    if names.windows(2).any(|pair| pair == ["align", "write-back"]) {
        return Err("align before write-back: it puts together again what align has cut; \
                    the other way round they work"
            .into());
    }
    for (place, name) in names.iter().enumerate() {
        let later = &names[place + 1..];
        if let Some(rank) = OF_NAMES.iter().position(|other| other == name)
            && let Some(early) = later.iter().find(|other| OF_NAMES[..rank].contains(*other))
        {
            return Err(format!("{early} has to come before {name}, or files would be lost"));
        }
        if OF_BYTES.contains(name)
            && let Some(early) = later.iter().find(|other| OF_NAMES.contains(*other))
        {
            return Err(format!("{early} has to come before {name}: names before bytes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_rejected() {
        for right in [
            &["count", "combine", "path-rewrite", "write-back", "throttle"][..],
            &["combine", "write-back", "read-ahead"],
            &["combine", "count", "combine"],
            &["write-back", "align"],
            &["throttle", "throttle", "fault", "fault"],
            &[],
        ] {
            assert_eq!(check_order(right), Ok(()), "{right:?}");
        }
        for wrong in [
            &["path-rewrite", "combine"][..],
            &["write-back", "count", "combine"],
            &["read-ahead", "align", "combine"],
            &["read-ahead", "path-rewrite"],
            &["combine", "combine"],
            &["count", "align", "write-back"],
        ] {
            assert!(check_order(wrong).is_err(), "{wrong:?}");
        }
    }
}
