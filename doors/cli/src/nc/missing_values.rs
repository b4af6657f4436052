//! [`MissingValues`]: values that a dataset's header describes and its truncated file lacks.
//!
//! A file that was cut off, or whose writer left the end out, has fewer values than its header
//! states; reads beyond the end would give zeros that were never written. A header that contradicts
//! itself as well, or states vastly more than there is, is a damaged one: what it says of values is
//! not to be believed.

use std::fmt::Write as _;
use std::path::Path;

use striate_array::Dataset;
use striate_array::format::{Header, validate as violations};
use striate_datatype::Bytes;

use super::{store, validate};
use crate::CommandError;
use crate::number::{counted, grouped};

/// Variables that are named.
const NAMED: usize = 8;
/// More than this, and than a thousand times what the file has, is stated by damaged headers only.
const BELIEVED: u128 = 1 << 30;

/// What is missing in a file.
#[derive(Debug)]
pub(super) struct MissingValues {
    file: String,
    /// Of each variable, how many values the file has.
    pub(super) held: Vec<u64>,
    /// Those that lack some: name, values that are missing, and all.
    variables: Vec<(String, u64, u64)>,
    file_len: u64,
}

impl MissingValues {
    /// What is missing of a dataset, which is open; `None` if nothing is. Variables that are in
    /// partitions are looked at when those are opened. A damaged header is an error.
    pub(super) fn of(path: &Path, dataset: &Dataset) -> Result<Option<Self>, CommandError> {
        let infos = dataset.partitions().unwrap_or_default();
        let mut divided = vec![false; dataset.header().variables.len()];
        for index in infos.iter().flat_map(|info| &info.variables).map(|it| it.variable) {
            divided[index] = true;
        }
        let (bytes, decoded, file_len) = validate::header(store(path)?.as_ref())?;
        let Ok((mut own, _)) = decoded else { return Ok(None) };
        own.records = dataset.header().records;
        let file = path.display().to_string();
        let mut found = Self { file, held: Vec::new(), variables: Vec::new(), file_len };
        let mut lost: u128 = 0;
        for (index, variable) in own.variables.iter().enumerate() {
            if divided.get(index) == Some(&true) {
                found.held.push(u64::MAX);
                continue;
            }
            let held = own.values_within(variable, file_len);
            let all = own
                .shape(variable)
                .iter()
                .fold(1_u128, |all, &len| all.saturating_mul(u128::from(len)));
            found.held.push(held);
            if u128::from(held) < all {
                let missing = all - u128::from(held);
                lost = lost
                    .saturating_add(missing.saturating_mul(u128::from(variable.external.size())));
                let number = |n| u64::try_from(n).unwrap_or(u64::MAX);
                found.variables.push((variable.name.clone(), number(missing), number(all)));
            }
        }
        if found.variables.is_empty() {
            return Ok(None);
        }
        match damage(&own, &bytes, lost, file_len) {
            Some(reason) => Err(CommandError::failed(
                format!("the header of {} is damaged", found.file),
                reason,
                "'striate nc validate FILE' shows all that is wrong with it",
            )),
            None => Ok(Some(found)),
        }
    }

    /// The error that ends a command which has shown what there is.
    pub(super) fn error(&self, hint: &str) -> CommandError {
        CommandError::failed(format!("{} is not whole", self.file), self.told(), hint)
    }

    /// How many values of a variable are missing, by its index.
    pub(super) fn of_variable(&self, header: &Header, index: usize) -> u64 {
        let name = header.variables.get(index).map(|variable| variable.name.as_str());
        let found = self.variables.iter().find(|(own, _, _)| Some(own.as_str()) == name);
        found.map_or(0, |(_, missing, _)| *missing)
    }

    fn told(&self) -> String {
        let mut text = format!("it has {} only, without ", Bytes(self.file_len));
        for (number, (name, missing, all)) in self.variables.iter().take(NAMED).enumerate() {
            let between = if number > 0 { ", " } else { "" };
            let (missing, all) = (grouped(*missing), counted(*all, "value"));
            let _ = write!(text, "{between}{missing} of {all} of variable '{name}'");
        }
        match self.variables.len().saturating_sub(NAMED) {
            0 => {}
            more => {
                let _ = write!(text, " and values of {}", counted(more as u64, "other variable"));
            }
        }
        text
    }
}

/// Why a header that states more than there is cannot be right, if it cannot.
fn damage(own: &Header, bytes: &[u8], lost: u128, file_len: u64) -> Option<String> {
    // As if nothing were missing.
    let whole = own.end().unwrap_or(i64::MAX as u64);
    let found = violations(bytes, whole).into_iter().find(|found| found.at.is_some());
    if let Some(found) = found {
        return Some(format!(
            "the file has {} of {}, and {}",
            grouped(file_len),
            counted(whole, "byte"),
            found.what
        ));
    }
    let absurd = lost > BELIEVED && lost > 1000 * u128::from(file_len);
    let lost = u64::try_from(lost).unwrap_or(u64::MAX);
    absurd.then(|| {
        format!(
            "it states {} of values that are missing, in a file of {}",
            Bytes(lost),
            counted(file_len, "byte")
        )
    })
}
