//! [`StripingReport`]: the requested and the actual striping of a file, and why they differ.

use super::layout::Striping;
use super::request::{StripeCount, StripeRequest};

/// How a file on Lustre is striped, and how it was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripingReport {
    /// What was asked for; perhaps nothing.
    pub requested: StripeRequest,
    /// What the file has; `None` if it has no stripes, or the layout cannot be read.
    pub actual: Option<Striping>,
    /// In which way it is not what was asked for, and why.
    pub difference: Option<String>,
}

/// Why a layout was not set, or not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The file has been there before.
    Existed,
    /// The directory has a composite default.
    CompositeDirectory,
    /// The directory has a default of an unknown form.
    UnknownDirectory,
    /// The file system refused.
    Refused(String),
    /// It took the layout, and the file had none.
    Ignored,
}

impl Obstacle {
    fn words(&self) -> String {
        match self {
            Self::Existed => "the file was there before and keeps its layout".into(),
            Self::CompositeDirectory => {
                "its directory has a composite layout (PFL), which is not overridden".into()
            }
            Self::UnknownDirectory => {
                "the layout of its directory is not understood, and not overridden".into()
            }
            Self::Refused(reason) => format!("the file system takes no layout: {reason}"),
            Self::Ignored => "the file system did not set the layout; \
                 an administrator may have restricted that"
                .into(),
        }
    }
}

impl StripingReport {
    /// Compares. `actual` is an error where the layout could not be read.
    pub(super) fn new(
        requested: StripeRequest,
        actual: Result<Option<Striping>, String>,
        targets: Option<u32>,
        obstacle: Option<&Obstacle>,
    ) -> Self {
        let mut differences = Vec::new();
        match &actual {
            _ if requested.is_empty() => {}
            Err(reason) => differences.push(format!("its layout cannot be read ({reason})")),
            Ok(None) => differences.push("it has no stripes".into()),
            Ok(Some(actual)) => compare(&requested, actual, targets, &mut differences),
        }
        let difference = (!differences.is_empty()).then(|| {
            let mut text = format!("{requested} asked for, but {}", differences.join(", "));
            if let Some(obstacle) = obstacle {
                text += ": ";
                text += &obstacle.words();
            }
            text
        });
        Self { requested, actual: actual.ok().flatten(), difference }
    }
}

fn compare(
    requested: &StripeRequest,
    actual: &Striping,
    targets: Option<u32>,
    differences: &mut Vec<String>,
) {
    if actual.components > 1 {
        differences.push(format!("the layout has {} components", actual.components));
    }
    let wanted = match requested.count {
        Some(StripeCount::Of(count)) => Some(count),
        Some(StripeCount::All) => targets,
        None => None,
    };
    if let Some(wanted) = wanted
        && actual.count != Some(wanted)
    {
        differences.push(actual.count.map_or_else(
            || "how many stripes it will have is not decided".into(),
            |count| format!("it has {count} {}", if count == 1 { "stripe" } else { "stripes" }),
        ));
    }
    if requested.unit.is_some_and(|unit| unit != actual.unit) {
        differences.push(format!("its stripes have {} bytes", actual.unit));
    }
    if let Some(start) = requested.start
        && actual.start != Some(start)
    {
        differences.push(actual.start.map_or_else(
            || "where it starts is not decided".into(),
            |start| format!("it starts at OST {start}"),
        ));
    }
}
