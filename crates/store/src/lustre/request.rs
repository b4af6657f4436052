//! [`StripeRequest`]: the requested striping of a new file.

use std::fmt;

use super::layout::{LayoutForm, ObjectId, PATTERN_STRIPES, PlainLayout};

/// Stripes are multiples of this (`LOV_MIN_STRIPE_SIZE`).
const SMALLEST_UNIT: u64 = 1 << 16;
/// The largest such multiple that a layout can say.
const LARGEST_UNIT: u64 = 0xFFFF_0000;
/// `LOV_MAX_STRIPE_COUNT`.
const MOST_STRIPES: u32 = 2000;
/// `LOV_V1_INSANE_STRIPE_INDEX`: no target has a larger number.
const LAST_TARGET: u32 = 0xFFDF;
/// `LOV_ALL_STRIPES`, and `LOV_OFFSET_DEFAULT` of the first target.
const ALL: u16 = 0xFFFF;

/// How many targets stripes are dealt to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeCount {
    /// Every target.
    All,
    /// So many, or as many as there are.
    Of(u32),
}

/// How a new file shall be striped. What is `None` is the file system's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripeRequest {
    /// Over how many targets.
    pub count: Option<StripeCount>,
    /// Bytes of a stripe; the file system has multiples of 64 KiB only.
    pub unit: Option<u64>,
    /// The target of the first stripe.
    pub start: Option<u32>,
    /// Whether to do so although the directory has a composite default layout (PFL).
    pub over_composite: bool,
}

impl StripeRequest {
    /// Whether nothing is asked for.
    pub const fn is_empty(&self) -> bool {
        self.count.is_none() && self.unit.is_none() && self.start.is_none()
    }

    /// The layout to set: units rounded up to multiples of 64 KiB, no more stripes than there are
    /// `targets`. `None` if no target can have the number of the first.
    pub fn layout(&self, targets: Option<u32>) -> Option<PlainLayout> {
        if self.start.is_some_and(|start| start > LAST_TARGET) {
            return None;
        }
        let unit = self
            .unit
            .map_or(0, |unit| unit.clamp(1, LARGEST_UNIT).next_multiple_of(SMALLEST_UNIT) as u32);
        let most = targets.unwrap_or(MOST_STRIPES).clamp(1, MOST_STRIPES);
        let count = match (self.count, targets) {
            (None, _) => 0,
            (Some(StripeCount::Of(count)), _) => count.clamp(1, most) as u16,
            (Some(StripeCount::All), Some(_)) => most as u16,
            (Some(StripeCount::All), None) => ALL,
        };
        Some(PlainLayout {
            form: LayoutForm::V1,
            pattern: PATTERN_STRIPES,
            owner: ObjectId::default(),
            unit,
            count,
            start: self.start.map_or(ALL, |start| start as u16),
            objects: Vec::new(),
        })
    }
}

/// Such as `4 stripes of 1048576 bytes from OST 3 on`.
impl fmt::Display for StripeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            None => f.write_str("stripes")?,
            Some(StripeCount::Of(1)) => f.write_str("1 stripe")?,
            Some(StripeCount::Of(count)) => write!(f, "{count} stripes")?,
            Some(StripeCount::All) => f.write_str("stripes on all OSTs")?,
        }
        if let Some(unit) = self.unit {
            write!(f, " of {unit} bytes")?;
        }
        if let Some(start) = self.start {
            write!(f, " from OST {start} on")?;
        }
        Ok(())
    }
}
