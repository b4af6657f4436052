//! [`Ratio`]: one rate over another, both measured in the same rounds.

use serde::Serialize;

use crate::{Median, median};

/// A rate of ours over another's.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// What is compared, in words.
    pub name: String,
    /// Median of the ratios within rounds.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// The least we want, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// Whether the value reaches the goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

impl Ratio {
    /// Compares two series of rates, round by round: what disturbs a round disturbs both sides.
    /// `None` if there are no rounds.
    pub fn within(name: String, ours: &[f64], other: &[f64], goal: Option<f64>) -> Option<Self> {
        let ratios: Vec<f64> = ours.iter().zip(other).map(|(ours, other)| ours / other).collect();
        let Median { value, ci95 } = median(&ratios)?;
        Some(Self { name, value, ci95, goal, met: goal.map(|goal| value >= goal) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine halved its speed in the second round.
        let ratio = Ratio::within("a over b".into(), &[4.0, 2.0], &[2.0, 1.0], Some(1.9)).unwrap();
        assert_eq!((ratio.value, ratio.ci95, ratio.met), (2.0, [2.0, 2.0], Some(true)));
        assert_eq!(Ratio::within(String::new(), &[1.0], &[2.0], None).unwrap().met, None);
        assert!(Ratio::within(String::new(), &[], &[], None).is_none());
    }
}
