//! The stages there are.

use toml::Table;

use crate::stage::Stage;

/// A sort of stage: how it is called and made.
#[derive(Debug)]
pub struct Sort {
    /// Its name in configurations.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Makes one, from its table in the configuration.
    pub build: fn(Table) -> Result<Box<dyn Stage>, String>,
}

/// All sorts.
pub static SORTS: &[Sort] = &[];

/// The sort of a name.
pub fn sort(name: &str) -> Option<&'static Sort> {
    SORTS.iter().find(|sort| sort.name == name)
}

/// Says what is wrong with stages in this order, if anything is.
pub(crate) fn check_order(names: &[&str]) -> Result<(), String> {
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    match twice {
        Some(pair) => Err(format!("two stages {} in a row: the second does nothing new", pair[0])),
        None => Ok(()),
    }
}
