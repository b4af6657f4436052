//! [`Hints`]: how calls on a file are carried out, by the names of ROMIO; our own hints begin with
//! `striate_`.
//!
//! Unknown names are ignored, as MPI says; a value that cannot be used is an error that names the
//! hint. The hints in effect are read back with [`Hints::iter`]: one entry per hint, in a fixed
//! order, defaults included.

use std::fmt;
use std::str::FromStr;

use striate_datatype::parse_size;
use striate_layout::characteristics::Method;

use crate::{Direction, FileError};

/// The environment variable that is read by [`Hints::from_environment`].
const VARIABLE: &str = "STRIATE_HINTS";

/// Whether something is done always, never, or where it helps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// Always.
    Enable,
    /// Never.
    Disable,
    /// Where it helps.
    #[default]
    Automatic,
}

/// Which method carries out calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodChoice {
    /// The one that costs least, chosen per call.
    #[default]
    Auto,
    /// Always this one. Independent calls cannot be [`Method::TwoPhase`]; they choose by
    /// themselves.
    Fixed(Method),
}

/// How two-phase divides the file among aggregators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DomainChoice {
    /// By what is known of the store.
    #[default]
    Auto,
    /// Equal shares.
    Even,
    /// Shares that begin on stripe boundaries.
    Aligned,
    /// Stripes, assigned round robin.
    StaticCycling,
    /// Groups of aggregators, each with a share that is assigned round robin.
    GroupCycling,
    /// Each aggregator accesses so many targets.
    XTarget,
}

/// How data travels between ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// Through memory where ranks share it, by messages elsewhere.
    #[default]
    Auto,
    /// By messages only: every aggregator works alone.
    Messages,
}

/// Whether striping hints apply in a directory on Lustre that has a composite layout (PFL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Composites {
    /// New files get the directory's layout.
    #[default]
    Keep,
    /// New files are striped as the hints say.
    Override,
}

macro_rules! words {
    ($type:ty { $($value:expr => $word:literal),+ $(,)? }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if *self == $value { return f.pad($word); })+
                Ok(())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $(if text.eq_ignore_ascii_case($word) { return Ok($value); })+
                Err(format!("is none of {}", [$($word),+].join(", ")))
            }
        }
    };
}

words!(Switch { Self::Enable => "enable", Self::Disable => "disable", Self::Automatic => "automatic" });
words!(MethodChoice {
    Self::Auto => "auto",
    Self::Fixed(Method::Posix) => "posix",
    Self::Fixed(Method::Sieve) => "sieve",
    Self::Fixed(Method::TwoPhase) => "two-phase",
    Self::Fixed(Method::List) => "list",
    Self::Fixed(Method::Datatype) => "datatype",
});
words!(DomainChoice {
    Self::Auto => "auto",
    Self::Even => "even",
    Self::Aligned => "aligned",
    Self::StaticCycling => "static-cycling",
    Self::GroupCycling => "group-cycling",
    Self::XTarget => "x-target",
});
words!(Composites { Self::Keep => "keep", Self::Override => "override" });
words!(Exchange { Self::Auto => "auto", Self::Messages => "messages" });

/// How calls on a file are to be carried out. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// `cb_nodes`: aggregators in all; by default what suits the store.
    pub cb_nodes: Option<u64>,
    /// `cb_config_list`, of which `*:N` is understood: aggregators per node at most.
    pub cb_per_node: Option<u64>,
    /// `cb_buffer_size`: the most that an aggregator reads or writes at once.
    pub cb_buffer_size: Option<u64>,
    /// `romio_cb_read`: whether collective reads are two-phase.
    pub cb_read: Switch,
    /// `romio_cb_write`: whether collective writes are two-phase.
    pub cb_write: Switch,
    /// `romio_ds_read`: whether independent reads are sieved.
    pub ds_read: Switch,
    /// `romio_ds_write`: whether independent writes are sieved.
    pub ds_write: Switch,
    /// `ind_rd_buffer_size`: the buffer of a sieved read; by default what stays in a core's cache.
    pub ind_rd_buffer_size: Option<u64>,
    /// `ind_wr_buffer_size`: the buffer of a sieved write.
    pub ind_wr_buffer_size: u64,
    /// `striping_factor`: targets a new file is striped over. Once a file on Lustre is open, this,
    /// the unit and the first target are what the file has.
    pub striping_factor: Option<u64>,
    /// `striping_factor=-1`: every target; means nothing if `striping_factor` is set.
    pub striping_all: bool,
    /// `striping_unit`: bytes of a stripe; also the unit of aligned and cycling domains.
    pub striping_unit: Option<u64>,
    /// `start_iodevice`: the target of the first stripe; `-1` is any.
    pub start_iodevice: Option<u64>,
    /// `striate_method`.
    pub method: MethodChoice,
    /// `striate_domains`.
    pub domains: DomainChoice,
    /// `striate_x_targets`: targets per aggregator of x-target domains.
    pub x_targets: u64,
    /// `striate_exchange`.
    pub exchange: Exchange,
    /// `striate_list_regions`: file regions that a list request carries at most.
    pub list_regions: u64,
    /// `striate_direct`: whether the page cache is bypassed.
    pub direct: Switch,
    /// `striate_write_behind`: whether small writes may wait in memory until they fill a window.
    pub write_behind: Switch,
    /// `striate_lustre_pfl`: whether striping hints apply where a directory has a composite
    /// layout.
    pub lustre_pfl: Composites,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            cb_nodes: None,
            cb_per_node: None,
            cb_buffer_size: None,
            cb_read: Switch::Automatic,
            cb_write: Switch::Automatic,
            ds_read: Switch::Automatic,
            ds_write: Switch::Automatic,
            ind_rd_buffer_size: None,
            ind_wr_buffer_size: 512 << 10,
            striping_factor: None,
            striping_all: false,
            striping_unit: None,
            start_iodevice: None,
            method: MethodChoice::Auto,
            domains: DomainChoice::Auto,
            x_targets: 1,
            exchange: Exchange::Auto,
            list_regions: 64,
            direct: Switch::Disable,
            write_behind: Switch::Automatic,
            lustre_pfl: Composites::Keep,
        }
    }
}

impl Hints {
    /// The defaults, changed by what `STRIATE_HINTS` says, e.g. `cb_nodes=4;striate_method=auto`.
    pub fn from_environment() -> Result<Self, FileError> {
        match std::env::var(VARIABLE) {
            Ok(text) => text.parse(),
            Err(_) => Ok(Self::default()),
        }
    }

    /// Sets one hint; unknown ones are ignored.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FileError> {
        let value = value.trim();
        self.set_by_name(name.trim(), value).map_err(|reason| FileError::Hint {
            name: name.trim().into(),
            value: value.into(),
            reason,
        })
    }

    /// [`Hints::set`] for chains.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, FileError> {
        self.set(name, value)?;
        Ok(self)
    }

    fn set_by_name(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "cb_nodes" => self.cb_nodes = Some(positive(value)?),
            "cb_config_list" => self.cb_per_node = per_node(value)?,
            "cb_buffer_size" => self.cb_buffer_size = Some(buffer(value)?),
            "romio_cb_read" => self.cb_read = value.parse()?,
            "romio_cb_write" => self.cb_write = value.parse()?,
            "romio_ds_read" => self.ds_read = value.parse()?,
            "romio_ds_write" => self.ds_write = value.parse()?,
            "ind_rd_buffer_size" => self.ind_rd_buffer_size = Some(buffer(value)?),
            "ind_wr_buffer_size" => self.ind_wr_buffer_size = buffer(value)?,
            "striping_factor" => {
                self.striping_all = value == "-1";
                self.striping_factor = (value != "-1").then(|| positive(value)).transpose()?;
            }
            "striping_unit" => self.striping_unit = Some(buffer(value)?),
            "start_iodevice" => {
                self.start_iodevice = (value != "-1").then(|| number(value)).transpose()?;
            }
            "striate_method" => self.method = value.parse()?,
            "striate_domains" => self.domains = value.parse()?,
            "striate_x_targets" => self.x_targets = positive(value)?,
            "striate_exchange" => self.exchange = value.parse()?,
            "striate_list_regions" => self.list_regions = positive(value)?,
            "striate_direct" => self.direct = value.parse()?,
            "striate_write_behind" => self.write_behind = value.parse()?,
            "striate_lustre_pfl" => self.lustre_pfl = value.parse()?,
            _ => {}
        }
        Ok(())
    }

    /// Bytes of a sieve's buffer. What is read into it is copied from it at once, so a buffer
    /// larger than a core's cache makes local reads slower; a write locks a window of this size.
    pub(crate) fn sieve_buffer(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Write => self.ind_wr_buffer_size,
            Direction::Read => self.ind_rd_buffer_size.unwrap_or(512 << 10),
        }
    }

    /// The same, with the hints that can only be chosen when a file is opened taken from `opened`.
    pub(crate) fn with_opening_of(self, opened: &Self) -> Self {
        Self {
            striping_factor: opened.striping_factor,
            striping_all: opened.striping_all,
            striping_unit: opened.striping_unit,
            start_iodevice: opened.start_iodevice,
            direct: opened.direct,
            write_behind: opened.write_behind,
            lustre_pfl: opened.lustre_pfl,
            ..self
        }
    }

    /// The hints in effect, by name. Those that were not given and have no fixed default are
    /// absent.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        let some = |value: Option<u64>| value.map(|value| value.to_string());
        let all = self.striping_all.then(|| "-1".into());
        [
            ("cb_nodes", some(self.cb_nodes)),
            ("cb_config_list", self.cb_per_node.map(|n| format!("*:{n}"))),
            ("cb_buffer_size", some(self.cb_buffer_size)),
            ("romio_cb_read", Some(self.cb_read.to_string())),
            ("romio_cb_write", Some(self.cb_write.to_string())),
            ("romio_ds_read", Some(self.ds_read.to_string())),
            ("romio_ds_write", Some(self.ds_write.to_string())),
            ("ind_rd_buffer_size", some(self.ind_rd_buffer_size)),
            ("ind_wr_buffer_size", some(Some(self.ind_wr_buffer_size))),
            ("striping_factor", some(self.striping_factor).or(all)),
            ("striping_unit", some(self.striping_unit)),
            ("start_iodevice", some(self.start_iodevice)),
            ("striate_method", Some(self.method.to_string())),
            ("striate_domains", Some(self.domains.to_string())),
            ("striate_x_targets", some(Some(self.x_targets))),
            ("striate_exchange", Some(self.exchange.to_string())),
            ("striate_list_regions", some(Some(self.list_regions))),
            ("striate_direct", Some(self.direct.to_string())),
            ("striate_write_behind", Some(self.write_behind.to_string())),
            ("striate_lustre_pfl", Some(self.lustre_pfl.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// The value in effect of one hint; `None` if it is unknown or has none.
    pub fn get(&self, name: &str) -> Option<String> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// As `name=value;name=value`, which parses back.
impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}

impl FromStr for Hints {
    type Err = FileError;

    fn from_str(text: &str) -> Result<Self, FileError> {
        let mut hints = Self::default();
        for entry in text.split(';').filter(|entry| !entry.trim().is_empty()) {
            let (name, value) = entry.split_once('=').ok_or_else(|| FileError::Hint {
                name: entry.trim().into(),
                value: String::new(),
                reason: "has no value; hints are written name=value;name=value".into(),
            })?;
            hints.set(name, value)?;
        }
        Ok(hints)
    }
}

fn number(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| "is not a whole number".into())
}

fn positive(value: &str) -> Result<u64, String> {
    match number(value)? {
        0 => Err("must be at least 1".into()),
        n => Ok(n),
    }
}

/// Buffers are made in memory: between 1 byte and 1 TiB.
fn buffer(value: &str) -> Result<u64, String> {
    let size = parse_size(value).map_err(|error| format!("is not a size: {error}"))?;
    if (1..=1 << 40).contains(&size) { Ok(size) } else { Err("must be from 1 to 1 TiB".into()) }
}

fn per_node(value: &str) -> Result<Option<u64>, String> {
    let reason =
        || String::from("is not understood; '*:N' gives N aggregators per node, '*:*' any");
    match value.strip_prefix("*:").ok_or_else(reason)? {
        "*" => Ok(None),
        n => positive(n).map(Some).map_err(|_| reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_read_back_and_parse_back() {
        let hints: Hints =
            "cb_nodes=4; striate_method = list;cb_buffer_size=4MiB;unknown=1;romio_ds_write=disable"
                .parse()
                .unwrap();
        assert_eq!(hints.get("cb_nodes").as_deref(), Some("4"));
        assert_eq!(hints.get("cb_buffer_size").as_deref(), Some("4194304"));
        assert_eq!(hints.get("striate_method").as_deref(), Some("list"));
        assert_eq!(hints.get("romio_ds_write").as_deref(), Some("disable"));
        assert_eq!(hints.get("unknown"), None);
        assert_eq!(hints.get("cb_config_list"), None);
        assert_eq!(hints.to_string().parse::<Hints>().unwrap(), hints);
    }

    #[test]
    fn minus_one_is_every_target_or_any_target() {
        let mut hints: Hints = "striping_factor=-1;start_iodevice=-1".parse().unwrap();
        assert_eq!(
            (hints.striping_factor, hints.striping_all, hints.start_iodevice),
            (None, true, None)
        );
        assert_eq!(hints.get("striping_factor").as_deref(), Some("-1"));
        assert_eq!(hints.get("start_iodevice"), None);
        assert_eq!(hints.to_string().parse::<Hints>().unwrap(), hints);
        hints.set("striping_factor", "4").unwrap();
        assert_eq!((hints.striping_factor, hints.striping_all), (Some(4), false));
    }

    #[test]
    fn malformed_values_name_the_hint() {
        for (name, value) in [
            ("cb_nodes", "0"),
            ("cb_nodes", "many"),
            ("cb_buffer_size", "0"),
            ("cb_buffer_size", "4 apples"),
            ("romio_cb_read", "perhaps"),
            ("striate_method", "magic"),
            ("striping_factor", "-2"),
            ("start_iodevice", "first"),
            ("striate_lustre_pfl", "yes"),
            ("cb_config_list", "host1:2"),
        ] {
            let error = Hints::default().set(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
        assert!("cb_nodes".parse::<Hints>().is_err());
    }
}
