//! Formatting of points in time and durations.

use std::time::Duration;

/// A point in time, in milliseconds since 1970, as date and time of day of UTC.
pub(crate) fn utc(milliseconds: u64) -> String {
    striate_calendar::utc(milliseconds / 1000)
}

/// A length of time by its two largest units: `3 d 4 h`, `5 min 7 s`, `12 s`.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_left_out() {
        assert_eq!(utc(951_782_400_999), "2000-02-29 00:00:00 UTC");
    }

    #[test]
    fn lengths_have_two_units() {
        for (seconds, text) in
            [(7, "7 s"), (307, "5 min 7 s"), (3600, "1 h 0 min"), (273_900, "3 d 4 h")]
        {
            assert_eq!(length(Duration::from_secs(seconds)), text);
        }
    }
}
