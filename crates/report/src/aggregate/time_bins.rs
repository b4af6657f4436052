//! Bins of time: a fixed number, whose width follows from the length of the recording.

/// Bins of the timeline and the rates.
pub(crate) const BINS: u64 = 160;

/// The width of bins, a number that reads well, so that at most as many as wanted cover a length.
pub(crate) fn width(length: u64, most: u64) -> u64 {
    let least = length.div_ceil(most).max(1);
    let mut unit = 1u64;
    loop {
        for step in [10, 12, 15, 20, 25, 30, 40, 50, 60, 80] {
            let width = if unit == 1 { step / 10 } else { (unit / 10).saturating_mul(step) };
            if width >= least {
                return width;
            }
        }
        match unit.checked_mul(10) {
            Some(next) => unit = next,
            None => return least,
        }
    }
}

/// Shares of something that lasted from `start` on, by bin: calls `add` with the place of each bin
/// and the time in it. What lies behind the last bin is counted there.
pub(crate) fn spread(
    width: u64,
    bins: usize,
    start: u64,
    duration: u64,
    mut add: impl FnMut(usize, u64),
) {
    let Some(last_bin) = bins.checked_sub(1) else { return };
    let end = start.saturating_add(duration);
    let mut from = start;
    while from < end {
        let place = ((from / width) as usize).min(last_bin);
        let until =
            if place == last_bin { end } else { (place as u64 + 1).saturating_mul(width).min(end) };
        add(place, until - from);
        from = until;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bins_cover_the_length(length: u64, most in 1u64..500) {
            let width = width(length, most);
            prop_assert!(u128::from(width) * u128::from(most) >= u128::from(length));
            prop_assert!(length < 100 || u128::from(width) <= u128::from(length.div_ceil(most)) * 3 / 2 + 1);
        }

        #[test]
        fn nothing_is_lost(start in 0u64..2000, duration in 0u64..5000, width in 1u64..100) {
            let mut bins = [0; 20];
            spread(width, 20, start, duration, |place, time| bins[place] += time);
            prop_assert_eq!(bins.iter().sum::<u64>(), duration);
            prop_assert!(bins[..19].iter().all(|time| *time <= width));
        }
    }
}
